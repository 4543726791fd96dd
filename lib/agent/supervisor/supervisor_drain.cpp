// SPDX-License-Identifier: Apache-2.0
// What SupervisorCore does where a scheduler signals every process of a step itself, as Slurm does:
// the workers have the signal already, some of them before we have, and every node has it.
#include "agent/supervisor/supervisor_core.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>

namespace muster {

// Died of a signal that asks a program to end: we may get the same one in a moment.
bool SupervisorCore::may_be_of_scheduler(const WorkerFailure& failure) const {
  const int code = failure.status.shell_code();
  return settings_.signals_reach_all && !failure.spawn_error &&
         std::ranges::any_of(settings_.signals_to_forward,
                             [code](int signo) { return code == 128 + signo; });
}

// At the time limit Slurm sends SIGTERM twice, at a preemption three times.
bool SupervisorCore::is_repeated_by_scheduler(int signo) const {
  return settings_.signals_reach_all && signo == SIGTERM;
}

TimePoint SupervisorCore::drained_by(TimePoint now) const {
  return std::max(now, settings_.job_ends.value_or(now)) + settings_.grace;
}

// As stop_workers, but that they know already. Those that have died of it did not fail.
void SupervisorCore::drain(Turn& turn, int signo) {
  why_ = Why::interrupted;
  result_.stop_signal = signo;
  for (WorkerFailure& failure : result_.failures) {
    failure.after_stop = failure.after_stop || may_be_of_scheduler(failure);
  }
  stop_until_ = drained_by(turn.now);
  if (spawned_ == 0 || groups_empty_) {
    clear(turn);
    return;
  }
  if (settings_.grace <= Duration::zero()) {
    kill(turn, kSelfExitTime);
    return;
  }
  state_ = SupervisorState::stopping;
  deadline_ = stop_until_;
  const bool until_job_ends = settings_.job_ends && *settings_.job_ends > turn.now;
  turn.out.emplace_back(TellDrain{signo, *deadline_ - turn.now, until_job_ends});
  // A scheduler that looks for processes first and then signals them misses those that are started
  // in between: twice is better than never.
  if (turn.now - spawned_at_ < kSignalSpread) {
    turn.out.emplace_back(SignalGroups{signo});
  }
  await_deaf(turn);
}

// The others get the scheduler's signal too, and would send their workers another one if they heard
// of our leaving before.
void SupervisorCore::say_leaving(Turn& turn) {
  if (leave_at_ && !closed_) {
    turn.out.emplace_back(
        LeaveRound{fmt::format("asked to end by {}", signal_name(result_.interrupting_signal))});
  }
  leave_at_.reset();
}

std::optional<TimePoint> SupervisorCore::next_deadline() const {
  std::optional<TimePoint> next = deadline_;
  for (const auto& other : {leave_at_, kill_all_at_, look_at_}) {
    next = next && other ? std::min(next, other) : next;
  }
  return next;
}

}  // namespace muster
