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
  leftovers_.skipped_at =
      std::min(turn.now + kSelfExitTimeInHurry, *stop_until_ - settings_.grace / 2);
}

void SupervisorCore::signal_skipped(Turn& turn) {
  if (!leftovers_.skipped_at || turn.now < *leftovers_.skipped_at) {
    return;
  }
  defer_skipped(turn);
  if (dying_.empty() ||
      turn.now >= *leftovers_.skipped_at) {  // a dying worker still holds its pipes open
    MUSTER_MARK("children of workers that had exited have had a moment to finish");
    leftovers_.skipped_at.reset();
    turn.out.emplace_back(SignalGroups{result_.stop_signal, GroupsOf::skipped_workers});
  }
}

// If no process was left running, NothingLeft follows immediately.
void SupervisorCore::clear(Turn& turn) {
  state_ = SupervisorState::clearing;
  leftovers_.phase = ClearPhase::settling;
  times_.finish_until = grace_until(turn.now);
  leftovers_.look_at.reset();
  leftovers_.skipped_at.reset();
  deadline_ = self_exits_until(turn.now);
  turn.out.emplace_back(AwaitNothingLeft{});
  leftovers_.shm_manager = false;
  turn.out.emplace_back(LookAtLeftovers{});
}

// True if a user or scheduler is waiting for us to exit, or our parent is dead.
bool SupervisorCore::is_urgent() const {
  return why_ == Why::interrupted || why_ == Why::orphaned || result_.preemption ||
         result_.interrupting_signal != 0;
}

// After a stop request, torch_shm_manager gets extra time to exit. That time is subtracted here, so
// that the job does not end later than promised.
Duration SupervisorCore::kill_timeout() const {
  if (is_urgent() && leftovers_.shm_manager) {
    return kKillTimeout - (kShmManagerTimeInHurry - kSelfExitTime);
  }
  const bool restarts = why_ == Why::regroup && !result_.preemption;
  return restarts ? kKillTimeoutBeforeRestart : kKillTimeout;
}

// Helpers that read a killed worker's pipes reach end of file only after the kernel has freed the
// worker's memory. Their time to exit starts only then.
TimePoint SupervisorCore::self_exits_until(TimePoint now) const {
  const Duration manager = is_urgent() ? kShmManagerTimeInHurry : kShmManagerTime;
  const Duration needed = leftovers_.shm_manager ? manager : kSelfExitTime;
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
  if (leftovers_.phase == ClearPhase::settling && all_succeeded() &&
      turn.now < times_.finish_until) {
    MUSTER_MARK("leftovers of succeeded workers have time to finish");
    leftovers_.phase = ClearPhase::finishing;
    deadline_ = times_.finish_until;
    turn.out.emplace_back(NameLeftovers{times_.finish_until - turn.now});
  } else if (leftovers_.phase != ClearPhase::asked && settings_.grace > Duration::zero()) {
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
  leftovers_.phase = ClearPhase::asked;
  const Duration at_least =
      live_.empty() ? std::min(settings_.grace, kLeftoverGraceMin) : Duration::zero();
  deadline_ = std::max(stop_until_.value_or(grace_until(turn.now)), turn.now + at_least);
  turn.out.emplace_back(AskLeftovers{});
  leftovers_.look_at = turn.now;
  look_for_deaf(turn);
}

// Schedules a check for processes that ignore SIGTERM, in the groups of workers that got SIGTERM
// and have exited.
void SupervisorCore::await_deaf(Turn& turn) {
  if (state_ == SupervisorState::stopping && live_.empty() && result_.stop_signal == SIGTERM) {
    leftovers_.look_at = turn.now + kSelfExitTime;
  }
}

void SupervisorCore::look_for_deaf(Turn& turn) {
  if (!leftovers_.look_at || turn.now < *leftovers_.look_at) {
    return;
  }
  leftovers_.look_at = turn.now + kSelfExitTime;
  if (live_.empty()) {
    turn.out.emplace_back(LookAtLeftovers{});
  }
}

// If the remaining processes ignore SIGTERM, a long wait would not help. They still get a moment,
// because the processes that they serve may have just exited.
void SupervisorCore::take_looks(Turn& turn) {
  const auto& seen = std::get<LeftoversSeen>(turn.event);
  if (seen.only_deaf && leftovers_.look_at) {
    MUSTER_MARK("all leftovers ignore SIGTERM");
    kill(turn, kSelfExitTimeInHurry);
  } else if (seen.shm_manager && !std::exchange(leftovers_.shm_manager, true)) {
    wait_for_shm_manager(turn);
  }
}

void SupervisorCore::wait_for_shm_manager(Turn& turn) {
  MUSTER_MARK("PyTorch's torch_shm_manager has time to remove shared memory");
  const TimePoint until = self_exits_until(turn.now);
  if (leftovers_.kill_all_at) {
    leftovers_.kill_all_at = until;
    deadline_ = until + kill_timeout();
  } else if (state_ == SupervisorState::clearing && leftovers_.phase == ClearPhase::settling) {
    deadline_ = until;
  }
}

void SupervisorCore::note_worker_gone(Turn& turn) {
  note_late_exit(turn);
  if (!live_.empty()) {
    return;
  }
  const TimePoint until = self_exits_until(turn.now);
  if (leftovers_.kill_all_at) {
    leftovers_.kill_all_at = std::min(*leftovers_.kill_all_at, until);
  } else if (state_ == SupervisorState::clearing && leftovers_.phase == ClearPhase::settling) {
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
  } else if (leftovers_.phase != ClearPhase::asked && settings_.grace > Duration::zero()) {
    ask_leftovers(turn);
  }
}

void SupervisorCore::raise_while_clearing(Turn& turn) {
  raise_to_regroup(turn);
  if (leftovers_.phase == ClearPhase::finishing) {
    deadline_ = turn.now;
  }
}

void SupervisorCore::close_while_clearing(Turn& turn) {
  hurry_closed(turn);
  if (leftovers_.phase == ClearPhase::finishing && !all_succeeded()) {
    deadline_ = turn.now;
  }
}

// -- killing ----------------------------------------------------------------------------------

// Processes that are killed while workers are live are the workers' own children. Their names would
// not help users.
void SupervisorCore::kill(Turn& turn, Duration self_exit_time) {
  const bool names = live_.empty();
  state_ = SupervisorState::killing;
  leftovers_.look_at.reset();
  leftovers_.skipped_at.reset();
  leftovers_.shm_manager = false;  // it may have exited since the last look
  deadline_ = turn.now + kill_timeout();
  if (self_exit_time <= Duration::zero()) {
    turn.out.emplace_back(KillEverything{names});
    return;
  }
  turn.out.emplace_back(KillWorkers{names});
  if (self_exit_time < kSelfExitTime) {
    leftovers_.kill_all_at = turn.now + self_exit_time;
  } else {
    leftovers_.kill_all_at = self_exits_until(turn.now);
    turn.out.emplace_back(LookAtLeftovers{});
  }
}

void SupervisorCore::kill_last(Turn& turn) {
  if (leftovers_.kill_all_at && turn.now >= *leftovers_.kill_all_at) {
    MUSTER_MARK("helpers that do not exit on their own are killed");
    leftovers_.kill_all_at.reset();
    turn.out.emplace_back(KillEverything{live_.empty()});
  }
}

// This node has lost contact with the others, so it kills the helpers too: the other nodes may
// start without it.
void SupervisorCore::kill_fenced_last(Turn& turn) {
  raise_to_regroup(turn);
  if (leftovers_.kill_all_at) {
    MUSTER_MARK("fenced while helpers have time to exit");
    leftovers_.kill_all_at = turn.now;
    kill_last(turn);
  }
}

}  // namespace muster
