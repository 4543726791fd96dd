// SPDX-License-Identifier: Apache-2.0
// How SupervisorCore handles a preemption: the scheduler has announced that it will stop the job.
// The workers save and exit on their own. Those that are left at the deadline are killed. The job
// does not restart.
#include "agent/supervisor/supervisor_core.hpp"
#include "base/mark.hpp"

#include <algorithm>
#include <utility>

namespace muster {

bool SupervisorCore::is_success(const ExitStatus& status) const {
  const bool saved = status == ExitStatus{.value = kPreemptedCode};
  return status.success() || (result_.preemption && saved);
}

// Only the first notice counts.
void SupervisorCore::note_preempted(Turn& turn) {
  if (result_.preemption) {
    return;
  }
  const auto& notice = std::get<Preempted>(turn.event);
  result_.preemption = Preemption{.why = notice.why, .step = {}, .saved = {}};
  preempt_by_ = notice.deadline;
}

// The end of a grace period that begins now. It ends at the deadline of a preemption at the latest.
TimePoint SupervisorCore::grace_until(TimePoint now) const {
  const TimePoint until = now + settings_.grace;
  return result_.preemption ? std::min(until, std::max(now, preempt_by_.value_or(now))) : until;
}

// True if the deadline has passed. The workers have used their grace period to save.
bool SupervisorCore::end_preempted(Turn& turn) {
  if (!preempt_by_ || turn.now < *preempt_by_) {
    return false;
  }
  MUSTER_MARK("workers outlive the deadline of a preemption");
  preempt_by_.reset();
  TellLate late;
  for (const auto& [local_rank, pid] : live_) {
    if (!dying_.contains(local_rank)) {
      late.local_ranks.push_back(local_rank);
    }
  }
  turn.out.emplace_back(std::move(late));
  why_ = result_.failures.empty() ? Why::preempted : Why::regroup;
  report_failures(turn);
  kill(turn, kSelfExitTime);
  return true;
}

// No worker remains. The node waits for the others, as if its workers had finished.
void SupervisorCore::finish_preempted(Turn& turn, Duration timeout) {
  if (!live_.empty()) {  // these workers cannot be killed
    end_attempt(turn, timeout, Outcome::interrupted);
    return;
  }
  why_ = Why::finished;
  state_ = SupervisorState::waiting;
  deadline_.reset();
  turn.out.emplace_back(ReportFinished{});
}

// The job does not start another round. After a failure or the loss of a node, this node waits
// until the deadline for the leader to close the job.
void SupervisorCore::leave_preempted(Turn& turn) {
  if (!preempt_by_ || turn.now < *preempt_by_) {
    return;
  }
  MUSTER_MARK("a preempted node leaves instead of starting another round");
  preempt_by_.reset();
  turn.out.emplace_back(LeaveRound{"the job was preempted"});
  wait_to_leave(turn);
}

}  // namespace muster
