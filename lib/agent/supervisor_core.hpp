// SPDX-License-Identifier: Apache-2.0
// SupervisorCore: decides what happens to the workers of one node, from the first round to the
// job's result. A table of states and events; time is an argument, effects are data, no I/O.
// Stepped by agent/supervisor and by the simulator; single-threaded; value-like. States: README.md.
#pragma once

#include "agent/job_result.hpp"
#include "agent/supervisor_events.hpp"
#include "base/time.hpp"
#include "rendezvous/round/restart_policy.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace muster {

// After SIGKILL a process is gone within milliseconds, unless the kernel cannot let go of it. We
// promise to end within 5 s then, and the guard looks once more after us.
inline constexpr Duration kKillPatience = std::chrono::seconds(2);

// Nobody waits for an end before a restart, and the memory of a large process takes its time: it is
// also what a worker gets that is known to be dying.
inline constexpr Duration kKillPatienceBeforeRestart = std::chrono::seconds(30);

// `timeout` and others send the same signal to a process and to its group: one request, not two.
inline constexpr Duration kSameRequestTime = std::chrono::milliseconds(50);

// How long a slow console may hold us up: before a restart, at the end, and when we are in a hurry.
inline constexpr Duration kConsolePatienceBetween = std::chrono::seconds(2);
inline constexpr Duration kConsolePatienceAtEnd = std::chrono::seconds(10);
inline constexpr Duration kConsolePatienceInterrupted = std::chrono::milliseconds(500);

// So long the other nodes may take to let one go that was told to end.
inline constexpr Duration kLeavePatience = std::chrono::seconds(1);

struct SupervisorSettings {
  int max_restarts = 0;
  Duration grace = std::chrono::seconds(30);
  std::set<int> signals_to_forward;  // others that would end a program kill the workers at once
  bool shared_round = false;         // many nodes: they decide on rounds and restarts together
  Duration console_patience_between = kConsolePatienceBetween;
};

// waiting: many nodes, this one has done its part (or was told to end) and stays for the others.
enum class SupervisorState { joining, running, stopping, killing, waiting, done };

class SupervisorCore {
 public:
  using Effects = std::vector<SupervisorEffect>;

  explicit SupervisorCore(SupervisorSettings settings);

  void step(TimePoint now, const SupervisorEvent& event, Effects& out);

  // When to step a Tick at the latest.
  [[nodiscard]] std::optional<TimePoint> next_deadline() const { return deadline_; }

  [[nodiscard]] SupervisorState state() const { return state_; }

  // Complete once Finish was given out; the failures of an attempt from its CloseAttempt on.
  [[nodiscard]] const JobResult& result() const { return result_; }

  // Attempts so far: the number of the next one.
  [[nodiscard]] int starts() const { return starts_; }

  // One line for traces and failed checks.
  [[nodiscard]] std::string describe() const;

  void check_invariants() const;

  // Whether this event may never come in this state: the table's cell aborts.
  [[nodiscard]] static bool is_impossible(SupervisorState state, std::size_t event);

 private:
  // Why the workers are being stopped, or will not be started again.
  enum class Why { nothing, finished, regroup, restart, give_up, interrupted, orphaned, closed };

  struct Turn {
    TimePoint now;
    const SupervisorEvent& event;
    Effects& out;
  };

  using Action = void (SupervisorCore::*)(Turn&);
  struct Table;

  void ignore(Turn& turn);
  void impossible(Turn& turn);
  void open_first_round(Turn& turn);
  void spawn_first(Turn& turn);
  void end_unstarted(Turn& turn);
  void spawn_next(Turn& turn);
  void note_spawn_failure(Turn& turn);
  void regroup(Turn& turn);
  void raise_to_regroup(Turn& turn);
  void note_exit(Turn& turn);
  void note_dying(Turn& turn);
  void note_also_dying(Turn& turn);
  void note_late_exit(Turn& turn);
  void sweep_leftovers(Turn& turn);
  void go_on(Turn& turn);
  void end_before_start(Turn& turn);
  void take_signal(Turn& turn);
  void take_second_signal(Turn& turn);
  void take_late_signal(Turn& turn);
  void end_orphaned(Turn& turn);
  void kill_orphaned(Turn& turn);
  void kill_overdue(Turn& turn);
  void abandon_unkillable(Turn& turn);

  // Jobs of many nodes: supervisor_shared.cpp.
  void close_unstarted(Turn& turn);
  void stop_closed(Turn& turn);
  void hurry_closed(Turn& turn);
  void end_closed(Turn& turn);
  void kill_fenced(Turn& turn);
  void rejoin(Turn& turn);
  void leave_finished(Turn& turn);
  void end_waiting(Turn& turn);
  void note_closed(const RoundClosed& event);
  void report_failure(Turn& turn);
  void wait_to_leave(Turn& turn);
  void go_on_shared(Turn& turn);
  void close_attempt(Turn& turn, Duration patience);

  void begin_round(Turn& turn);
  // Signals that never end a job.
  [[nodiscard]] static bool is_passed_on(int signo);
  bool relay(Turn& turn, int signo);
  void note_interruption(Turn& turn, const SignalReceived& signal);
  [[nodiscard]] Duration console_patience() const;
  void record(const WorkerExit& exit, double wall_seconds, bool after_stop);
  void complete_early(const WorkerExit& exit);
  [[nodiscard]] bool waits_for_memory(TimePoint now) const;
  void decide_after_failure(Turn& turn);
  void stop_workers(Turn& turn, Why why, int signo);
  void sweep(Turn& turn);
  void hurry(Turn& turn);
  void finish(Turn& turn, Outcome outcome);

  SupervisorSettings settings_;
  RestartPolicy policy_;
  SupervisorState state_ = SupervisorState::joining;
  Why why_ = Why::nothing;
  std::optional<TimePoint> deadline_;
  TimePoint now_{};           // of the last step
  TimePoint spawned_at_{};    // last worker of this attempt
  TimePoint signalled_at_{};  // first request to stop
  int rank_first_ = 0;
  int starts_ = 0;
  int spawned_ = 0;
  bool attempt_open_ = false;      // started, and no CloseAttempt yet
  std::map<int, pid_t> live_;      // by local rank: not reaped yet
  std::set<int> dying_;            // local ranks of live_ that have begun to end
  std::optional<int> early_;       // the one of them that is result_.failures.front()
  TimePoint dying_until_{};        // so long the kernel may take
  std::optional<Outcome> closed_;  // many nodes: how the job ends for this one
  JobResult result_;
};

}  // namespace muster
