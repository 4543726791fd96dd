// SPDX-License-Identifier: Apache-2.0
// PreemptionControl: handles notices that the scheduler will stop the job. It watches for notices
// on this node (a signal, a file, a URL, the job's time limit), gives them to the workers of all
// nodes, and collects which steps were saved. It is an event sink, so that it knows which workers
// run. In a multi-node job, the leader decides at which step all ranks save. With
// --preempt-scope=node, only the nodes that received a notice leave afterwards. Owned by the agent;
// one thread.
#pragma once

#include "agent/agent_setup.hpp"
#include "agent/events/event_stream.hpp"
#include "agent/rounds/inquiry_listener.hpp"
#include "agent/supervisor/supervisor.hpp"
#include "agent/watch/cloud_watch.hpp"
#include "agent/watch/late_ranks.hpp"
#include "agent/watch/preemption_texts.hpp"
#include "agent/workers/worker_channel.hpp"

#include <asio/steady_timer.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace muster {

class SharedRounds;

// How often --preempt-file is checked.
inline constexpr Duration kPreemptFileInterval = std::chrono::seconds(1);

// The workers must have exited this long before the cloud stops the machine.
inline constexpr Duration kCloudMargin = std::chrono::seconds(5);

// Near the job's time limit: how often muster checks whether workers run and poll for a notice.
inline constexpr Duration kEndInterval = std::chrono::seconds(1);

// A node that knows of a notice and has received no decision repeats the notice after this time. It
// is shorter than the time that workers wait for the decision.
inline constexpr Duration kNoticeRepeat = std::chrono::seconds(1);

// The number of ranks that are named one by one when they are killed at the deadline.
inline constexpr std::size_t kLateRanksNamed = 8;

// The objects that PreemptionControl uses.
struct PreemptionParts {
  EventStream& events;
  Supervisor& supervisor;
  WorkerChannel& channel;
  SharedRounds* others = nullptr;  // set in a multi-node job
};

class PreemptionControl final : public EventSink, public InquiryListener {
 public:
  PreemptionControl(asio::io_context& loop, const AgentSetup& setup, PreemptionParts parts);

  // Begins to watch the sources of notices. Call once.
  void start();

  // True if the signal is a notice. Then neither the supervisor nor the workers receive it.
  [[nodiscard]] bool take_signal(int signo, pid_t sender);

  // EventSink
  void take(const JobEvent& event) override;

  // InquiryListener
  void inquire(const InquiryStep& step) override;

  void step_saved(int local_rank, std::uint64_t step);

  // Reports workers that are killed at the deadline.
  void tell_late(const std::vector<int>& local_ranks) const;

  // Adds what was saved to the result of a preempted job.
  void complete(JobResult& result) const;

  // True on the node with the lowest ranks, if the job was preempted. It asks for a requeue.
  [[nodiscard]] bool is_first_node() const { return rank_first_ == 0; }

 private:
  struct Given {
    std::string why;
    TimePoint deadline{};
    bool is_of_node = false;  // the job continues on the other nodes
  };

  void begin_round(const event::RoundBegun& begun);
  [[nodiscard]] bool runs() const;
  [[nodiscard]] bool has_finished() const;
  [[nodiscard]] bool is_notice(int signo) const;
  [[nodiscard]] bool is_repeated(int signo) const;
  void watch_file();
  void watch_cloud();
  void watch_end();
  void give(const Given& given);
  void want(const Given& given);
  void ask();
  [[nodiscard]] bool stops_node() const;
  [[nodiscard]] Topic topic_of(const Given& given) const;
  void tell_supervisor(const Given& given);
  void begin(const Given& given);
  void await_late();
  void widen(const Given& given);
  void decide(const PreemptionDecision& decision, Topic topic);
  [[nodiscard]] PreemptionNotice notice_of(const Given& given) const;
  void look(const Look& question);
  void judge(const JudgeNow& all);
  [[nodiscard]] std::string fate_of(int local_rank) const;
  void look_at_late();

  const AgentSetup& setup_;
  PreemptionParts parts_;
  asio::steady_timer file_timer_;
  asio::steady_timer end_timer_;
  asio::steady_timer repeat_timer_;
  asio::steady_timer deadline_timer_;
  asio::steady_timer late_timer_;
  LateRanks late_ranks_;
  CloudWatch cloud_;
  bool file_is_old_ = false;           // --preempt-file existed before the job started
  std::optional<Given> wanted_;        // the notice that this node has given, or repeats
  bool is_stopped_ = false;            // the scheduler stops this node
  std::optional<TimePoint> asked_at_;  // when SIGTERM was the notice
  // The round and its notice.
  int rank_first_ = 0;
  int nproc_ = 0;
  int others_ = 0;                // ranks on other nodes
  int started_ = 0;               // workers
  std::map<int, pid_t> running_;  // workers, by rank
  std::optional<Given> begun_;
  bool decided_ = false;
  std::optional<std::uint64_t> step_;   // at which all ranks save
  std::map<int, std::uint64_t> saved_;  // by rank
};

}  // namespace muster
