// SPDX-License-Identifier: Apache-2.0
// How SupervisorCore handles processes that workers leave running: they get time to exit on their
// own, then SIGTERM and the grace period, then SIGKILL.
#include "agent/supervisor/supervisor_core.hpp"
#include "base/mark.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace muster {

// Children of workers that have exited, such as a filter for their output, have a moment to exit on
// their own, but at most half of the grace period. The runner knows which workers these are: it
// notices exits before they are reported here.
void SupervisorCore::defer_skipped(Turn& turn) {
  skipped_at_ = std::min(turn.now + kSelfExitTimeInHurry, *stop_until_ - settings_.grace / 2);
}

void SupervisorCore::signal_skipped(Turn& turn) {
  if (!skipped_at_ || turn.now < *skipped_at_) {
    return;
  }
  defer_skipped(turn);
  if (dying_.empty() || turn.now >= *skipped_at_) {  // a dying worker still holds its pipes open
    MUSTER_MARK("children of workers that had exited have had a moment to finish");
    skipped_at_.reset();
    turn.out.emplace_back(SignalGroups{result_.stop_signal, GroupsOf::skipped_workers});
  }
}

void SupervisorCore::clear_leftovers(Turn& turn) {
  clear(turn);
}

// If no process was left running, NothingLeft follows immediately.
void SupervisorCore::clear(Turn& turn) {
  state_ = SupervisorState::clearing;
  phase_ = ClearPhase::settling;
  finish_until_ = turn.now + settings_.grace;
  look_at_.reset();
  skipped_at_.reset();
  deadline_ = self_exits_until(turn.now);
  turn.out.emplace_back(AwaitNothingLeft{});
  shm_manager_ = false;
  turn.out.emplace_back(LookAtLeftovers{});
}

// True if a user or scheduler is waiting for us to exit, or our parent is dead.
bool SupervisorCore::is_urgent() const {
  return why_ == Why::interrupted || why_ == Why::orphaned || result_.interrupting_signal != 0;
}

// After a stop request, torch_shm_manager gets extra time to exit. That time is subtracted here, so
// that the job does not end later than promised.
Duration SupervisorCore::kill_timeout() const {
  if (is_urgent() && shm_manager_) {
    return kKillTimeout - (kShmManagerTimeInHurry - kSelfExitTime);
  }
  return why_ == Why::regroup ? kKillTimeoutBeforeRestart : kKillTimeout;
}

// Helpers that read a killed worker's pipes reach end of file only after the kernel has freed the
// worker's memory. Their time to exit starts only then.
TimePoint SupervisorCore::self_exits_until(TimePoint now) const {
  const Duration manager = is_urgent() ? kShmManagerTimeInHurry : kShmManagerTime;
  const Duration needed = shm_manager_ ? manager : kSelfExitTime;
  return now + (live_.empty() || is_urgent() ? needed : std::max(needed, kill_timeout() / 2));
}

bool SupervisorCore::all_succeeded() const {
  return why_ == Why::finished || (why_ == Why::closed && closed_ == Outcome::succeeded);
}

void SupervisorCore::go_on_clearing(Turn& turn) {
  look_for_deaf(turn);
  if (turn.now < deadline_) {
    return;
  }
  if (phase_ == ClearPhase::settling && all_succeeded() && turn.now < finish_until_) {
    MUSTER_MARK("leftovers of succeeded workers have time to finish");
    phase_ = ClearPhase::finishing;
    deadline_ = finish_until_;
    turn.out.emplace_back(NameLeftovers{finish_until_ - turn.now});
  } else if (phase_ != ClearPhase::asked && settings_.grace > Duration::zero()) {
    ask_leftovers(turn);
  } else {
    MUSTER_MARK("leftovers outlive their grace period");
    kill(turn, kSelfExitTimeInHurry);
  }
}

// Leftovers that got SIGTERM together with the workers have the rest of the workers' grace period,
// but at least kLeftoverGraceMin. The minimum does not apply if a killed worker has not exited yet,
// because muster has waited for that worker and the leftovers have had time to exit.
void SupervisorCore::ask_leftovers(Turn& turn) {
  phase_ = ClearPhase::asked;
  const Duration at_least =
      live_.empty() ? std::min(settings_.grace, kLeftoverGraceMin) : Duration::zero();
  deadline_ = std::max(stop_until_.value_or(turn.now + settings_.grace), turn.now + at_least);
  turn.out.emplace_back(AskLeftovers{});
  look_at_ = turn.now;
  look_for_deaf(turn);
}

// Schedules a check for processes that ignore SIGTERM, in the groups of workers that got SIGTERM
// and have exited.
void SupervisorCore::await_deaf(Turn& turn) {
  if (state_ == SupervisorState::stopping && live_.empty() && result_.stop_signal == SIGTERM) {
    look_at_ = turn.now + kSelfExitTime;
  }
}

void SupervisorCore::look_for_deaf(Turn& turn) {
  if (!look_at_ || turn.now < *look_at_) {
    return;
  }
  look_at_ = turn.now + kSelfExitTime;
  if (live_.empty()) {
    turn.out.emplace_back(LookAtLeftovers{});
  }
}

// If the remaining processes ignore SIGTERM, a long wait would not help. They still get a moment,
// because the processes that they serve may have just exited.
void SupervisorCore::take_looks(Turn& turn) {
  const auto& seen = std::get<LeftoversSeen>(turn.event);
  if (seen.only_deaf && look_at_) {
    MUSTER_MARK("all leftovers ignore SIGTERM");
    kill(turn, kSelfExitTimeInHurry);
  } else if (seen.shm_manager && !std::exchange(shm_manager_, true)) {
    wait_for_shm_manager(turn);
  }
}

void SupervisorCore::wait_for_shm_manager(Turn& turn) {
  MUSTER_MARK("PyTorch's torch_shm_manager has time to remove shared memory");
  const TimePoint until = self_exits_until(turn.now);
  if (kill_all_at_) {
    kill_all_at_ = until;
    deadline_ = until + kill_timeout();
  } else if (state_ == SupervisorState::clearing && phase_ == ClearPhase::settling) {
    deadline_ = until;
  }
}

void SupervisorCore::note_worker_gone(Turn& turn) {
  note_late_exit(turn);
  if (!live_.empty()) {
    return;
  }
  const TimePoint until = self_exits_until(turn.now);
  if (kill_all_at_) {
    kill_all_at_ = std::min(*kill_all_at_, until);
  } else if (state_ == SupervisorState::clearing && phase_ == ClearPhase::settling) {
    deadline_ = is_urgent() ? std::min(*deadline_, until) : until;
  }
}

void SupervisorCore::take_signal_clearing(Turn& turn) {
  const auto& signal = std::get<SignalReceived>(turn.event);
  if (relay(turn, signal)) {
    return;
  }
  if (result_.interrupting_signal != 0) {
    kill_on_second(turn, signal);
    return;
  }
  MUSTER_MARK("interrupted while leftovers have time to exit");
  if (why_ == Why::regroup || all_succeeded()) {
    why_ = Why::interrupted;
  }
  note_interruption(turn, signal);
  if (!settings_.signals_to_forward.contains(signal.signo)) {
    kill(turn, kSelfExitTime);
  } else if (phase_ != ClearPhase::asked && settings_.grace > Duration::zero()) {
    ask_leftovers(turn);
  }
}

void SupervisorCore::raise_while_clearing(Turn& turn) {
  raise_to_regroup(turn);
  if (phase_ == ClearPhase::finishing) {
    deadline_ = turn.now;
  }
}

void SupervisorCore::close_while_clearing(Turn& turn) {
  hurry_closed(turn);
  if (phase_ == ClearPhase::finishing && !all_succeeded()) {
    deadline_ = turn.now;
  }
}

// -- killing ----------------------------------------------------------------------------------

// Processes that are killed while workers are live are the workers' own children. Their names would
// not help users.
void SupervisorCore::kill(Turn& turn, Duration self_exit_time) {
  const bool names = live_.empty();
  state_ = SupervisorState::killing;
  look_at_.reset();
  skipped_at_.reset();
  shm_manager_ = false;  // it may have exited since the last look
  deadline_ = turn.now + kill_timeout();
  if (self_exit_time <= Duration::zero()) {
    turn.out.emplace_back(KillEverything{names});
    return;
  }
  turn.out.emplace_back(KillWorkers{names});
  if (self_exit_time < kSelfExitTime) {
    kill_all_at_ = turn.now + self_exit_time;
  } else {
    kill_all_at_ = self_exits_until(turn.now);
    turn.out.emplace_back(LookAtLeftovers{});
  }
}

void SupervisorCore::kill_last(Turn& turn) {
  if (kill_all_at_ && turn.now >= *kill_all_at_) {
    MUSTER_MARK("helpers that do not exit on their own are killed");
    kill_all_at_.reset();
    turn.out.emplace_back(KillEverything{live_.empty()});
  }
}

// This node has lost contact with the others, so it kills the helpers too: the other nodes may
// start without it.
void SupervisorCore::kill_fenced_last(Turn& turn) {
  raise_to_regroup(turn);
  if (kill_all_at_) {
    MUSTER_MARK("fenced while helpers have time to exit");
    kill_all_at_ = turn.now;
    kill_last(turn);
  }
}

}  // namespace muster
