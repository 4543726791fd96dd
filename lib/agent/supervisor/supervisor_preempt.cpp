// SPDX-License-Identifier: Apache-2.0
// How SupervisorCore handles a preemption: the scheduler has announced that it will stop the job,
// or some of its nodes. The workers save and exit on their own. Those that are left at the deadline
// are killed. A stopped node does not restart them; if it was not the whole job, it leaves, and the
// other nodes regroup.
#include "agent/supervisor/supervisor_core.hpp"
#include "base/mark.hpp"

#include <algorithm>
#include <utility>

namespace muster {

bool SupervisorCore::is_success(const ExitStatus& status) const {
  const bool saved = status == ExitStatus{.value = kPreemptedCode};
  return status.success() || ((result_.preemption || preempt_.of_node) && saved);
}

// Only the first notice counts, but later this node may be stopped, too, or the whole job, sooner.
void SupervisorCore::note_preempted(Turn& turn) {
  const auto& notice = std::get<Preempted>(turn.event);
  if (result_.preemption) {
    const bool widens = preempt_.of_node && notice.what == Preempts::job;
    preempt_.of_node = preempt_.of_node && !widens;
    preempt_.by = widens && preempt_.by ? std::min(*preempt_.by, notice.deadline) : preempt_.by;
    return;
  }
  preempt_.of_node = notice.what != Preempts::job;
  preempt_.by = notice.deadline;
  preempt_.why = notice.why;
  if (notice.what != Preempts::other_node) {
    note_stopped();
  }
}

// From now on, this node does not start workers, and its exit code is kPreemptedCode.
void SupervisorCore::note_stopped() {
  if (!result_.preemption) {
    result_.preemption = Preemption{.why = preempt_.why, .step = {}, .saved = {}};
  }
}

// The end of a grace period that begins now. It ends at the deadline of a preemption at the latest.
TimePoint SupervisorCore::grace_until(TimePoint now) const {
  const TimePoint until = now + settings_.grace;
  return result_.preemption ? std::min(until, std::max(now, preempt_.by.value_or(now))) : until;
}

// True if the deadline has passed. The workers have used their grace period to save.
bool SupervisorCore::end_preempted(Turn& turn) {
  if (!preempt_.by || turn.now < *preempt_.by) {
    return false;
  }
  MUSTER_MARK("workers outlive the deadline of a preemption");
  preempt_.by.reset();
  TellLate late;
  for (const auto& [local_rank, pid] : live_) {
    if (!dying_.contains(local_rank)) {
      late.local_ranks.push_back(local_rank);
    }
  }
  turn.out.emplace_back(std::move(late));
  preempt_.unfinished = true;
  preempt_.has_expired = result_.failures.empty();
  why_ = result_.failures.empty() ? Why::preempted : Why::regroup;
  report_failures(turn);
  kill(turn, kSelfExitTime);
  return true;
}

// No worker remains. The node waits for the others, as if its workers had finished.
void SupervisorCore::finish_preempted(Turn& turn, Duration timeout) {
  if (!live_.empty()) {  // these workers cannot be killed, so this node cannot continue
    note_stopped();
    end_attempt(turn, timeout, Outcome::interrupted);
    return;
  }
  why_ = Why::finished;
  finish_round(turn);
}

// No worker of the round remains. If the job continues on other nodes, the node that is stopped
// leaves them, and the others wait for that.
void SupervisorCore::finish_round(Turn& turn) {
  // Output continues in the meantime; we wait for it when the job releases this node.
  state_ = SupervisorState::waiting;
  deadline_.reset();
  if (!preempt_.of_node || !preempt_.unfinished) {
    turn.out.emplace_back(ReportFinished{});
  } else if (result_.preemption) {
    MUSTER_MARK("a preempted node leaves, and the job continues");
    turn.out.emplace_back(LeaveRound{"the scheduler stops it", true});
    wait_to_leave(turn);
  } else if (preempt_.regroups) {
    rejoin(turn);
  } else {
    MUSTER_MARK("a node waits until a preempted one has left");
    preempt_.by = std::max(preempt_.by.value_or(turn.now), turn.now) + kDepartureTime;
  }
}

// The node that is stopped has not left: its workers have exited with code 0, although a worker
// here has asked for another start. The job ends.
bool SupervisorCore::end_departure(Turn& turn) {
  if (!preempt_.of_node || !preempt_.by || turn.now < *preempt_.by) {
    return false;
  }
  MUSTER_MARK("a preempted node has finished instead of leaving");
  preempt_.by.reset();
  note_stopped();
  turn.out.emplace_back(ReportFinished{});
  return true;
}

// Before a round: a node that the scheduler stops waits for the leader to close the job, or leaves.
void SupervisorCore::await_close(TimePoint now) {
  if (!result_.preemption) {
    preempt_ = {};
  } else if (preempt_.of_node) {
    preempt_.by = now;
  } else {
    preempt_.by = std::max(preempt_.by.value_or(now), now + kPreemptedCloseTime);
  }
}

// The job does not start another round. After a failure or the loss of a node, this node waits
// until the deadline for the leader to close the job.
void SupervisorCore::leave_preempted(Turn& turn) {
  if (!preempt_.by || turn.now < *preempt_.by) {
    return;
  }
  MUSTER_MARK("a preempted node leaves instead of starting another round");
  preempt_.by.reset();
  turn.out.emplace_back(LeaveRound{"the job was preempted"});
  wait_to_leave(turn);
}

}  // namespace muster
