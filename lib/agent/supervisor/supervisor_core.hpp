// SPDX-License-Identifier: Apache-2.0
// SupervisorCore: decides what happens to the workers on one node: a pure table (README.md). Round
// sources (round_source.hpp) decide about rounds.
#pragma once

#include "agent/failures/job_result.hpp"
#include "agent/supervisor/supervisor_effects.hpp"
#include "agent/supervisor/supervisor_events.hpp"
#include "agent/supervisor/supervisor_settings.hpp"
#include "agent/supervisor/supervisor_state.hpp"
#include "base/time.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace muster {

struct SupervisorFacts;  // supervisor_invariants.hpp

class SupervisorCore {
 public:
  using Effects = SupervisorEffects;
  explicit SupervisorCore(SupervisorSettings settings);

  void step(TimePoint now, const SupervisorEvent& event, Effects& out);

  // The latest time for the next Tick.
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  [[nodiscard]] SupervisorState state() const { return state_; }

  // Complete from Finish on; failures from CloseAttempt on, kept until the next attempt has some.
  [[nodiscard]] const JobResult& result() const { return result_; }

  [[nodiscard]] const std::vector<WorkerFailure>& closed_failures() const;
  // Adds the shell's data about processes that could not be killed. Answers NameSurvivors.
  void add_survivors(const std::vector<Survivor>& known);

  [[nodiscard]] int starts() const { return starts_; }

  // True if the worker did not fail. After a notice of preemption it may use kPreemptedCode.
  [[nodiscard]] bool is_success(const ExitStatus& status) const;

  [[nodiscard]] std::string describe() const;
  // Aborts with the violated rule. Called after every event in simulation and in debug builds.
  void check_invariants() const;
  [[nodiscard]] SupervisorFacts facts() const;

  [[nodiscard]] static bool is_impossible(SupervisorState state, std::size_t event);

 private:
  using Why = StopReason;
  using Turn = SupervisorTurn;
  using Action = void (SupervisorCore::*)(Turn&);
  struct Table;
  void ignore(Turn& turn);
  void impossible(Turn& turn);
  void spawn_first(Turn& turn);
  void spawn_next(Turn& turn);
  void note_spawn_failure(Turn& turn);
  void regroup(Turn& turn);
  void raise_to_regroup(Turn& turn);
  void note_exit(Turn& turn);
  void note_groups_empty(Turn& turn);
  void note_dying(Turn& turn);
  void note_also_dying(Turn& turn);
  void note_late_exit(Turn& turn);
  void go_on(Turn& turn);
  void end_before_start(Turn& turn);
  void take_signal(Turn& turn);
  void take_second_signal(Turn& turn);
  void take_late_signal(Turn& turn);
  void end_orphaned(Turn& turn);
  void kill_orphaned(Turn& turn);
  void kill_overdue(Turn& turn);
  void abandon_unkillable(Turn& turn);

  // supervisor_clearing.cpp: processes that workers leave running.
  void defer_skipped(Turn& turn);
  void signal_skipped(Turn& turn);
  void clear(Turn& turn);
  void go_on_clearing(Turn& turn);
  void ask_leftovers(Turn& turn);
  void await_deaf(Turn& turn);
  void look_for_deaf(Turn& turn);
  void take_looks(Turn& turn);
  void wait_for_shm_manager(Turn& turn);
  void take_signal_clearing(Turn& turn);
  void kill_last(Turn& turn);
  void kill_fenced_last(Turn& turn);
  void note_worker_gone(Turn& turn);
  void raise_while_clearing(Turn& turn);
  void close_while_clearing(Turn& turn);
  [[nodiscard]] bool all_succeeded() const;
  [[nodiscard]] bool is_urgent() const;
  void kill_on_second(Turn& turn, const SignalReceived& signal);
  [[nodiscard]] bool is_same_request(const SignalReceived& signal, TimePoint now) const;
  [[nodiscard]] TimePoint self_exits_until(TimePoint now) const;
  [[nodiscard]] Duration kill_timeout() const;
  void kill(Turn& turn, Duration self_exit_time);

  // Interaction with the round source: supervisor_shared.cpp.
  void close_unstarted(Turn& turn);
  void stop_closed(Turn& turn);
  void hurry_closed(Turn& turn);
  void end_closed(Turn& turn);
  void kill_fenced(Turn& turn);
  void rejoin(Turn& turn);
  void leave_finished(Turn& turn);
  void end_waiting(Turn& turn);
  void note_closed(const RoundClosed& event);
  void report_failure(Turn& turn, WorkerFailure failure, TimePoint when);
  void report_failures(Turn& turn);
  void wait_to_leave(Turn& turn);
  void close_attempt(Turn& turn, Duration timeout);
  void begin_round(Turn& turn);
  bool relay(Turn& turn, const SignalReceived& signal);
  void note_interruption(Turn& turn, const SignalReceived& signal);
  [[nodiscard]] Duration console_timeout() const;
  void record(WorkerFailure failure, bool after_stop);
  void complete_early(const WorkerExited& exited);
  [[nodiscard]] bool waits_for_memory(TimePoint now) const;
  [[nodiscard]] bool may_hear_of_another(const WorkerFailure& failure) const;
  [[nodiscard]] bool may_be_of_scheduler(const WorkerFailure& failure) const;
  [[nodiscard]] bool is_repeated_by_scheduler(int signo) const;
  [[nodiscard]] TimePoint drained_by(TimePoint now) const;
  void drain(Turn& turn, int signo);
  void say_leaving(Turn& turn);
  void say_gone(Turn& turn);
  void take_failure(Turn& turn);
  void decide_held(Turn& turn);
  void decide_after_failure(Turn& turn);

  // Replacing single workers: supervisor_mend.cpp.
  bool ask_to_mend(Turn& turn);
  [[nodiscard]] std::string mend_obstacle() const;
  [[nodiscard]] bool holds_state() const;
  [[nodiscard]] bool is_lost(int local_rank) const;
  void note_mend_formed(Turn& turn);
  void join_mend(Turn& turn, std::uint64_t epoch);
  void begin_mending(Turn& turn);
  void note_mend_refused(Turn& turn);
  void note_left(Turn& turn);
  void end_left_mend(Turn& turn);
  void start_replacements(Turn& turn);
  void note_replaced(Turn& turn);
  void note_ready(Turn& turn);
  void note_resumed(Turn& turn);
  void note_heard(Turn& turn);
  void end_late_mend(Turn& turn);
  bool end_deaf(Turn& turn);
  void restart_mend_clock(TimePoint now);
  void look_at_mend(Turn& turn);
  [[nodiscard]] std::set<int> deaf() const;
  void fall_back(Turn& turn, std::string reason);
  void stop_workers(Turn& turn, Why why, int signo);
  void hurry(Turn& turn);
  void end_attempt(Turn& turn, Duration timeout, Outcome outcome);
  void finish(Turn& turn, Outcome outcome);

  // Preemption: supervisor_preempt.cpp.
  void note_preempted(Turn& turn);
  void note_stopped();
  [[nodiscard]] TimePoint grace_until(TimePoint now) const;
  bool end_preempted(Turn& turn);
  void finish_preempted(Turn& turn, Duration timeout);
  void finish_round(Turn& turn);
  void await_close(TimePoint now);
  void leave_preempted(Turn& turn);
  bool end_departure(Turn& turn);

  SupervisorSettings settings_;
  SupervisorState state_ = SupervisorState::joining;
  Why why_ = Why::nothing;
  LeftoverState leftovers_;
  SupervisorTimes times_;
  std::optional<TimePoint> deadline_;
  std::optional<TimePoint> stop_until_;  // end of the grace period for workers that must stop
  int rank_first_ = 0;
  int starts_ = 0;
  int spawned_ = 0;
  int others_ = 0;              // workers in the round on other nodes
  bool groups_empty_ = false;   // no process remains to be stopped; reported once
  bool attempt_open_ = false;   // the attempt was started, and CloseAttempt was not emitted yet
  bool awaits_signal_ = false;  // a worker's failure is held, because we may get the same signal
  PreemptState preempt_;
  std::optional<TimePoint> leave_at_;  // when to notify the others that this node is leaving
  std::map<int, pid_t> live_;          // workers that are not reaped yet, by local rank
  std::set<int> dying_;                // local ranks of the workers in live_ that are exiting
  std::optional<int> early_;           // the worker whose failure was recorded while it was dying
  std::optional<Outcome> closed_;      // the job's outcome for this node
  MendState mend_;
  JobResult result_;
  std::vector<WorkerFailure> failures_before_;  // failures of the last attempt, kept between rounds
};

}  // namespace muster
