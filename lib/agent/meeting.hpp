// SPDX-License-Identifier: Apache-2.0
// Meeting: one node's part in a job of many. Stands between the rendezvous, which says when to run
// and when to stop, and the supervisor, which starts and stops: opens the workers' store where this
// node has the first rank, shows the roll call, tells of failures with their evidence, keeps the
// guard's lease. Owned by the agent; lives on its loop. Resource.
#pragma once

#include "agent/agent.hpp"
#include "agent/error_file.hpp"
#include "agent/roll_call.hpp"
#include "agent/supervisor.hpp"
#include "plan/assignment.hpp"
#include "rendezvous/node/node_owner.hpp"
#include "rendezvous/node/rendezvous_node.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <memory>
#include <optional>
#include <string>

namespace muster {

// What the meeting needs of the agent around it.
class MeetingHost {
 public:
  virtual ~MeetingHost() = default;
  virtual void handle(const SupervisorEvent& event) = 0;
  virtual void run_round(RoundToRun round) = 0;
  // Starts of this node's workers before.
  [[nodiscard]] virtual int attempt() const = 0;
  // Folders and processes of the next attempt.
  [[nodiscard]] virtual Result<std::vector<ProcessSpec>> prepare_round(
      const Assignment& assignment) = 0;
  // What a worker left: its error file; the last words on its standard error.
  virtual void add_record(WorkerFailure& failure) = 0;
  virtual void add_last_words(WorkerFailure& failure) = 0;
  // Where the logs of this node are kept; empty where they are not.
  [[nodiscard]] virtual std::string kept_logs() const = 0;
  virtual void log(LogLevel level, const std::string& words) = 0;
};

class Meeting final : public NodeOwner {
 public:
  Meeting(asio::io_context& loop, const AgentSetup& setup, MeetingHost& host);

  [[nodiscard]] Result<void> start(MeetingMeans means);

  // From the supervisor.
  void tell_gone();
  void report_failure(WorkerFailure failure, Duration run_time);
  void report_finished();
  void leave(const std::string& reason);

  // A worker's end was seen. If we have slept through our lease, the others may have started
  // without us, and it is the guard that ended the worker: we are fenced, and nothing failed.
  void check_lease();

  // Before other words are written.
  void clear_line();

  // The end: no store, no lease.
  void close();

  // NodeOwner
  void run_round(const RunRound& run) override;
  void stop_workers(const std::string& reason) override;
  void fence_workers(const std::string& reason) override;
  void lease_until(TimePoint when) override;
  void open_store(RoundId round) override;
  void show_roll_call(const ShowRollCall& show) override;
  void say(const std::string& words) override;
  void ended(const NodeEnd& end) override;

 private:
  struct Store {
    std::unique_ptr<StoreServer> server;
    std::string address;
  };

  [[nodiscard]] RendezvousSettings settings() const;
  [[nodiscard]] Result<Store> make_store();
  void close_store();
  [[nodiscard]] RoundToRun plan(const RunRound& run);
  [[nodiscard]] Failed message_of(const WorkerFailure& failure, Duration run_time) const;
  void await_round();
  void arm_roll_call();

  asio::io_context& loop_;
  const AgentSetup& setup_;
  MeetingHost& host_;
  const LeaseTimer* lease_ = nullptr;
  asio::steady_timer roll_timer_;
  RollCallView roll_;
  std::unique_ptr<RendezvousNode> node_;
  std::unique_ptr<StoreServer> store_;
  RoundPtr round_;  // that the workers run in, or ran in last
  TimePoint started_at_{};
  double stopped_at_ = 0;  // unix time: the first failure, or the others' word to stop; 0: runs
  std::optional<TimePoint> lease_end_;
  bool overslept_ = false;  // we noticed the lease's end later than the guard
};

}  // namespace muster
