// SPDX-License-Identifier: Apache-2.0
// How SupervisorCore handles schedulers that send a signal to every process of a step, as Slurm
// does. The signal reaches all nodes and all workers, some of them before us.
#include "agent/supervisor/supervisor_core.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>

namespace muster {

// True if the worker died from a signal that asks a program to stop. We may receive the same signal
// shortly.
bool SupervisorCore::may_be_of_scheduler(const WorkerFailure& failure) const {
  const int code = failure.status.shell_code();
  return settings_.signals_reach_all && !failure.spawn_error &&
         std::ranges::any_of(settings_.signals_to_forward,
                             [code](int signo) { return code == 128 + signo; });
}

// Slurm sends SIGTERM twice when the time limit is reached and three times on preemption.
bool SupervisorCore::is_repeated_by_scheduler(int signo) const {
  return settings_.signals_reach_all && signo == SIGTERM;
}

TimePoint SupervisorCore::drained_by(TimePoint now) const {
  return std::max(now, settings_.job_ends.value_or(now)) + settings_.grace;
}

// Like stop_workers, but the workers already have the signal. Workers that died from it did not
// fail.
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
  // A scheduler that lists processes before it sends signals to them misses processes that start in
  // between. A duplicate signal is better than a missing one.
  if (turn.now - times_.spawned_at < kSignalSpread) {
    turn.out.emplace_back(SignalGroups{signo});
  }
  await_deaf(turn);
}

// The other nodes get the scheduler's signal too. If they learned earlier that this node is
// leaving, they would send their workers a second signal.
void SupervisorCore::say_leaving(Turn& turn) {
  if (leave_at_ && !closed_) {
    turn.out.emplace_back(
        LeaveRound{fmt::format("asked to stop by {}", signal_name(result_.interrupting_signal))});
  }
  leave_at_.reset();
}

std::optional<TimePoint> SupervisorCore::next_deadline() const {
  std::optional<TimePoint> next = deadline_;
  for (const auto& other :
       {leave_at_, leftovers_.kill_all_at, leftovers_.skipped_at, leftovers_.look_at}) {
    next = next && other ? std::min(next, other) : next;
  }
  // In the other states, the workers are being stopped or have exited.
  const bool awaits_preemption = state_ == SupervisorState::joining ||
                                 state_ == SupervisorState::running ||
                                 state_ == SupervisorState::mending ||
                                 (state_ == SupervisorState::waiting && preempt_.of_node);
  if (preempt_.by && awaits_preemption) {
    next = std::min(next.value_or(*preempt_.by), *preempt_.by);
  }
  return next;
}

}  // namespace muster
