// SPDX-License-Identifier: Apache-2.0
// A RendezvousNode with an agent whose workers are only text: they run until they are stopped.
// For tests with real sockets on one loop.
#pragma once

#include "base/clock.hpp"
#include "rendezvous/node/rendezvous_node.hpp"
#include "support/catch.hpp"

#include <asio/io_context.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace muster::testing {

// A port of 127.0.0.1 that was free a moment ago.
inline std::uint16_t free_port() {
  const auto listener = listen_on("127.0.0.1", 0);
  return port_of(listener->get());
}

class TestNode : public NodeOwner {
 public:
  TestNode(asio::io_context& loop, RendezvousSettings settings) {
    auto sockets = make_node_sockets();
    REQUIRE(sockets);
    auto started = RendezvousNode::start(loop, std::move(settings), std::move(*sockets), *this);
    REQUIRE(started);
    node_ = std::move(*started);
  }

  void run_round(const RunRound& run) override {
    ++rounds;
    round = run;
    running = true;
  }

  void run_mend(const RunMend& run) override { mend = run; }

  void refuse_mend(const RefuseMend& /*refused*/) override {}

  void stop_workers(const StopWorkers& stop) override {
    why_stopped = stop.reason;
    workers_end();
  }

  void fence_workers(const std::string& reason) override { stop_workers({reason}); }

  void lease_until(TimePoint when) override { lease = when; }

  void open_store(RoundId of) override {
    node_->tell(StoreOpened{.round = of, .address = node_->address(), .port = 12345});
  }

  // Treats every client from another machine as one of its own.
  void find_owner(const FindOwner& question) override {
    node_->tell(OwnerFound{.question = question.question, .answer = VouchAnswer::ours});
  }

  void vouch_known(const VouchKnown& known) override { vouched.push_back(known); }

  void inquire(const InquiryStep& step) override {
    if (const auto* look = std::get_if<LookNow>(&step)) {
      const Look& asked = look->question;
      node_->tell(LookedHere{{asked.round, asked.inquiry, "seen on " + node_->address()}});
    } else if (const auto* judge = std::get_if<JudgeNow>(&step)) {
      std::string verdict;
      for (const NodeAnswer& answer : judge->nodes) {
        verdict += answer.findings + ";";
      }
      node_->tell(JudgedHere{{judge->round, judge->inquiry, verdict}});
    } else {
      verdicts.push_back(std::get<HearVerdict>(step).said.verdict);
    }
  }

  void hear_waits(const HearWaits& heard) override { waits.push_back(heard); }

  void hear_suspect(const SuspectNode&) override {}

  void show_roll_call(const ShowRollCall& show) override { shown.push_back(show); }

  void log(LogLevel, const std::string& text) override { said.push_back(text); }

  void ended(const NodeEnd& how) override {
    end = how;
    node_.reset();
  }

  void workers_end() {
    running = false;
    node_->tell(WorkersGone{});
  }

  void finish_workers() {
    running = false;
    node_->tell(WorkersFinished{});
  }

  [[nodiscard]] RendezvousNode& node() { return *node_; }

  [[nodiscard]] std::size_t world() const { return running ? round->round->members.size() : 0; }

  int rounds = 0;
  bool running = false;
  std::optional<RunRound> round;
  std::optional<RunMend> mend;
  std::string why_stopped;
  TimePoint lease{};
  std::vector<ShowRollCall> shown;
  std::vector<VouchKnown> vouched;
  std::vector<std::string> verdicts;
  std::vector<HearWaits> waits;
  std::vector<std::string> said;
  std::optional<NodeEnd> end;

 private:
  std::unique_ptr<RendezvousNode> node_;
};

// The nodes of one job on one loop, and the time until a condition is true.
class TestJob {
 public:
  explicit TestJob(const std::string& host = "127.0.0.1") : endpoint_{host, free_port()} {}

  [[nodiscard]] RendezvousSettings settings() {
    RendezvousSettings out;
    out.core.terms = {.job_id = "job",
                      .backend = "c10d",
                      .nodes_min = 2,
                      .nodes_max = 3,
                      .max_restarts = 1,
                      .version = "1"};
    out.core.endpoints = {endpoint_};
    out.core.last_call = std::chrono::milliseconds(20);
    out.self.id = ++count_ * 1000;
    out.self.name = "node" + std::to_string(count_);
    out.seed = count_;
    return out;
  }

  std::unique_ptr<TestNode> add() { return add(settings()); }

  std::unique_ptr<TestNode> add(const RendezvousSettings& settings) {
    return std::make_unique<TestNode>(loop, settings);
  }

  // Runs the loop until the condition is true; false after 20 s.
  [[nodiscard]] bool until(const std::function<bool()>& condition) {
    const TimePoint deadline = steady_now() + std::chrono::seconds(20);
    while (!condition() && steady_now() < deadline) {
      loop.restart();
      loop.run_one_for(std::chrono::milliseconds(100));
    }
    return condition();
  }

  asio::io_context loop;

  [[nodiscard]] const Endpoint& endpoint() const { return endpoint_; }

 private:
  Endpoint endpoint_;
  std::uint64_t count_ = 0;
};

}  // namespace muster::testing
