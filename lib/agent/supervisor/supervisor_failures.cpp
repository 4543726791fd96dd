// SPDX-License-Identifier: Apache-2.0
// How SupervisorCore handles a failed worker: records the failure, waits for the cause of a lost
// connection, reports the failure and stops the other workers.
#include "agent/supervisor/supervisor_core.hpp"
#include "base/check.hpp"
#include "base/mark.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace muster {

void SupervisorCore::note_exit(Turn& turn) {
  const auto& exited = std::get<WorkerExited>(turn.event);
  live_.erase(exited.local_rank);
  dying_.erase(exited.local_rank);
  mend_.holders.erase(exited.local_rank);
  mend_.left.erase(exited.local_rank);
  mend_.arrived.erase(exited.local_rank);
  if (early_ == exited.local_rank) {
    // Otherwise its failure would have stopped the other workers.
    MUSTER_CHECK(awaits_signal_ || state_ == SupervisorState::mending);
    complete_early(exited);
    start_replacements(turn);
    return;
  }
  if (exited.failure) {
    record(*exited.failure, false);
    take_failure(turn);
    return;
  }
  if (state_ == SupervisorState::mending) {
    fall_back(turn, fmt::format("rank {} has finished", rank_first_ + exited.local_rank));
    return;
  }
  preempt_.unfinished = preempt_.unfinished || exited.asks_again;
  if (live_.empty() && result_.failures.empty()) {
    why_ = Why::finished;
    turn.out.emplace_back(ReportSuccess{});
    clear(turn);
  } else if (live_.empty() && !may_hear_of_another(result_.failures.front())) {
    // All other workers have succeeded, so none of them caused the failure that is held.
    decide_after_failure(turn);
  }
}

// Called while a failure is held. Records that no process remains that a later stop could signal.
void SupervisorCore::note_groups_empty(Turn& /*turn*/) {
  groups_empty_ = true;
}

// True if a worker that may explain the failure may still be running, here or on another node. The
// judgement of a startup error counts only the workers on this node.
bool SupervisorCore::may_hear_of_another(const WorkerFailure& failure) const {
  return !live_.empty() || awaits_signal_ || (others_ > 0 && !failure.startup_error);
}

// Handles the failure that was just recorded. A lost connection means that another worker is
// exiting, so the decision is postponed until that worker's exit is known. After a startup error,
// the other workers show whether the error is in the program or on one node.
void SupervisorCore::take_failure(Turn& turn) {
  times_.failed_at = result_.failures.size() == 1 ? turn.now : times_.failed_at;
  const bool is_mending = state_ == SupervisorState::mending;
  if (!is_mending && !awaits_signal_ && may_be_of_scheduler(result_.failures.back())) {
    awaits_signal_ = true;
    deadline_ = std::max(deadline_.value_or(turn.now), turn.now + kSignalSpread);
  }
  if (!is_mending && awaits_signal_) {
    return;  // later failures are held too: this death may have caused them
  }
  const WorkerFailure& failure = result_.failures.back();
  const bool waits = failure.lost_connection || failure.startup_error;
  if (is_mending || !waits || !may_hear_of_another(failure)) {
    decide_after_failure(turn);
    return;
  }
  MUSTER_MARK("a failure waits for those of other workers");
  if (live_.empty()) {
    MUSTER_MARK("a lost connection waits for a failure on another node");
  }
  deadline_ = times_.failed_at + kDeathNewsTime;
}

void SupervisorCore::decide_held(Turn& turn) {
  if (end_preempted(turn)) {
    return;
  }
  if (deadline_ && turn.now >= *deadline_) {
    MUSTER_MARK("no other worker failed in time");
    decide_after_failure(turn);
  }
}

// Like note_exit, but the worker has not been reaped, so nothing may depend on its exit.
void SupervisorCore::note_dying(Turn& turn) {
  const auto& failure = std::get<WorkerFailure>(turn.event);
  MUSTER_CHECK(!failure.status.success());
  note_also_dying(turn);
  if (early_) {
    return;  // held like the first failure; recorded when the worker is reaped
  }
  early_ = failure.local_rank;
  record(failure, false);
  take_failure(turn);
}

// The failure was recorded when the worker started to die. The wait status may contain more
// information (core dumped).
void SupervisorCore::complete_early(const WorkerExited& exited) {
  early_.reset();
  const auto known =
      std::ranges::find(result_.failures, exited.local_rank, &WorkerFailure::local_rank);
  MUSTER_CHECK(known != result_.failures.end());
  // A worker that was killed because of its child has our SIGKILL as its status. The failure keeps
  // the child's status.
  if (!exited.failure || !known->lost_child.empty()) {
    return;
  }
  known->status = exited.failure->status;
  if (exited.failure->out_of_memory) {
    known->out_of_memory = true;
    known->memory_usage = exited.failure->memory_usage;
  }
}

void SupervisorCore::note_also_dying(Turn& turn) {
  const int local_rank = std::get<WorkerFailure>(turn.event).local_rank;
  MUSTER_CHECK(live_.contains(local_rank));
  dying_.insert(local_rank);
  times_.dying_until = turn.now + kKillTimeoutBeforeRestart;
}

// True if all remaining workers are dying and no fast exit is required.
bool SupervisorCore::waits_for_memory(TimePoint now) const {
  return !dying_.empty() && dying_.size() == live_.size() && now < times_.dying_until &&
         !is_urgent();
}

void SupervisorCore::record(WorkerFailure failure, bool after_stop) {
  failure.rank = rank_first_ + failure.local_rank;
  failure.attempt = result_.attempt;
  failure.after_stop = after_stop;
  result_.failures.push_back(std::move(failure));
}

void SupervisorCore::decide_after_failure(Turn& turn) {
  if (settings_.restart_by_rank && !result_.preemption && !preempt_.of_node && ask_to_mend(turn)) {
    return;
  }
  report_failures(turn);
  stop_workers(turn, Why::regroup, SIGTERM);
}

}  // namespace muster
