// SPDX-License-Identifier: Apache-2.0
// How SupervisorCore interacts with the round source, which decides whether the job restarts or
// ends: the core reports failures, stops the workers, and waits for the decision.
#include "agent/supervisor/supervisor_core.hpp"
#include "base/check.hpp"
#include "base/mark.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace muster {

// -- failures ---------------------------------------------------------------------------------

// The round source decides whether to restart.
void SupervisorCore::report_failure(Turn& turn, WorkerFailure failure, TimePoint when) {
  failure.preempted = result_.preemption && !preempt_.of_node;
  failure.run_time = std::max(when - times_.spawned_at, Duration::zero());
  turn.out.emplace_back(std::move(failure));
}

// Reports all held failures, the cause first, because the first report stops the round.
void SupervisorCore::report_failures(Turn& turn) {
  const auto root = root_cause(result_.failures, SIGTERM);
  if (!root) {
    return;
  }
  report_failure(turn, result_.failures.at(*root), times_.failed_at);
  for (std::size_t i = 0; i < result_.failures.size(); ++i) {
    if (i != *root) {
      report_failure(turn, result_.failures[i], times_.failed_at);
    }
  }
}

// -- fencing ----------------------------------------------------------------------------------

// The other nodes may start without this node, and none of our processes may run at the same time
// as theirs.
void SupervisorCore::kill_fenced(Turn& turn) {
  MUSTER_MARK("fenced");
  if (why_ == Why::nothing || why_ == Why::finished) {
    why_ = Why::regroup;
  }
  kill(turn, Duration::zero());
}

// -- the end of the job -----------------------------------------------------------------------

void SupervisorCore::note_closed(const RoundClosed& event) {
  closed_ = event.outcome;
  result_.close = event.close;
  result_.error = event.error;
  result_.verdict = event.verdict;
}

void SupervisorCore::close_unstarted(Turn& turn) {
  const auto& closed = std::get<RoundClosed>(turn.event);
  note_closed(closed);
  finish(turn, closed.outcome);
}

void SupervisorCore::stop_closed(Turn& turn) {
  note_closed(std::get<RoundClosed>(turn.event));
  stop_workers(turn, Why::closed, SIGTERM);
}

// The workers are already being stopped, and no further round is expected. A node that was already
// asked to leave keeps its own outcome.
void SupervisorCore::hurry_closed(Turn& turn) {
  note_closed(std::get<RoundClosed>(turn.event));
  if (why_ == Why::regroup || why_ == Why::finished || why_ == Why::preempted) {
    MUSTER_MARK("closed while the workers are being stopped");
    why_ = Why::closed;
    if (state_ == SupervisorState::killing) {
      hurry(turn);
    }
  }
}

void SupervisorCore::end_closed(Turn& turn) {
  const auto& closed = std::get<RoundClosed>(turn.event);
  note_closed(closed);
  const bool interrupted = why_ == Why::interrupted;
  end_attempt(turn, console_timeout(), interrupted ? Outcome::interrupted : closed.outcome);
}

// -- between rounds ---------------------------------------------------------------------------

void SupervisorCore::close_attempt(Turn& turn, Duration timeout) {
  if (attempt_open_) {
    attempt_open_ = false;
    turn.out.emplace_back(CloseAttempt{timeout});
  }
}

// A finished node joins a regroup, because a remote worker has failed or a node has joined.
void SupervisorCore::rejoin(Turn& turn) {
  if (why_ != Why::finished) {
    return;
  }
  MUSTER_MARK("regroup after all local workers had finished");
  turn.out.emplace_back(TellGone{});
  close_attempt(turn, settings_.console_timeout_between);
  begin_round(turn);
}

// -- leaving ----------------------------------------------------------------------------------

// No worker remains. Gives the other nodes time to release this node, so that they do not wait for
// its lease to expire.
void SupervisorCore::wait_to_leave(Turn& turn) {
  state_ = SupervisorState::waiting;
  why_ = Why::interrupted;
  if (leave_at_) {
    deadline_ = leave_at_;
  } else {
    say_gone(turn);
  }
  close_attempt(turn, kConsoleTimeoutInterrupted);
}

void SupervisorCore::say_gone(Turn& turn) {
  say_leaving(turn);
  deadline_ = turn.now + kLeaveTimeout;
  turn.out.emplace_back(TellGone{});
}

void SupervisorCore::leave_finished(Turn& turn) {
  const auto& signal = std::get<SignalReceived>(turn.event);
  if (is_passed_on(signal.signo)) {
    return;
  }
  if (why_ == Why::finished) {
    MUSTER_MARK("interrupted while waiting for other nodes to finish");
    note_interruption(turn, signal);
    wait_to_leave(turn);
    return;
  }
  if (!is_same_request(signal, turn.now)) {
    finish(turn, Outcome::interrupted);
  }
}

void SupervisorCore::end_waiting(Turn& turn) {
  if (end_departure(turn)) {
    return;
  }
  if (leave_at_ && turn.now >= *leave_at_) {
    say_gone(turn);
  } else if (deadline_ && turn.now >= *deadline_) {
    MUSTER_MARK("left without an answer from the other nodes");
    finish(turn, Outcome::interrupted);
  }
}

}  // namespace muster
