// SPDX-License-Identifier: Apache-2.0
#include "agent/supervisor/supervisor_core.hpp"

#include "agent/supervisor/supervisor_invariants.hpp"
#include "base/check.hpp"
#include "base/mark.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

namespace muster {

SupervisorCore::SupervisorCore(SupervisorSettings settings) : settings_(std::move(settings)) {
  result_.max_restarts = settings_.max_restarts;
}

// -- joining ----------------------------------------------------------------------------------

void SupervisorCore::begin_round(Turn& turn) {
  state_ = SupervisorState::joining;
  why_ = Why::nothing;
  deadline_.reset();
  stop_until_.reset();
  spawned_ = 0;
  groups_empty_ = false;
  awaits_signal_ = false;
  live_.clear();
  dying_.clear();
  early_.reset();
  mend_.holders.clear();
  mend_.left.clear();
  mend_.arrived.clear();
  mend_.longest_pause = {};
  mend_.end();
  await_close(turn.now);
  // The shell carries out CloseAttempt after this step, and then logs these failures.
  failures_before_ = std::exchange(result_.failures, {});
  result_.overdue.clear();
  result_.stop_signal = SIGTERM;
  turn.out.emplace_back(AwaitRound{starts_});
}

void SupervisorCore::spawn_first(Turn& turn) {
  const auto& formed = std::get<RoundFormed>(turn.event);
  if (result_.preemption) {  // the leader does not know of it
    preempt_.by = turn.now;
    leave_preempted(turn);
    return;
  }
  MUSTER_CHECK(formed.nproc > 0);
  result_.nproc = formed.nproc;
  rank_first_ = formed.rank_first;
  others_ = formed.others;
  state_ = SupervisorState::running;
  attempt_open_ = true;
  result_.attempt = starts_++;
  turn.out.emplace_back(SpawnWorker{0});
}

void SupervisorCore::end_before_start(Turn& turn) {
  const auto& signal = std::get<SignalReceived>(turn.event);
  if (is_passed_on(signal.signo)) {
    return;
  }
  MUSTER_MARK("interrupted before the first worker");
  note_interruption(turn, signal);
  wait_to_leave(turn);
}

void SupervisorCore::note_interruption(Turn& turn, const SignalReceived& signal) {
  result_.interrupting_signal = signal.signo;
  result_.interrupting_sender = signal.sender;
  times_.signalled_at = turn.now;
  leave_at_ = turn.now;
  // The other nodes get the same signal from the scheduler, so the announcement is delayed (see
  // say_leaving).
  if (signal.reached_workers && others_ > 0 && attempt_open_) {
    leave_at_ = turn.now + kSignalSpread;
    return;
  }
  say_leaving(turn);
}

void SupervisorCore::end_orphaned(Turn& turn) {
  close_attempt(turn, Duration{});
  finish(turn, Outcome::orphaned);
}

// -- running ----------------------------------------------------------------------------------

void SupervisorCore::spawn_next(Turn& turn) {
  const auto& spawned = std::get<WorkerSpawned>(turn.event);
  MUSTER_CHECK(spawned.local_rank == spawned_);
  live_.emplace(spawned.local_rank, spawned.pid);
  ++spawned_;
  times_.spawned_at = turn.now;
  // Workers are started one at a time, so that none is started after a failed start.
  if (spawned_ < result_.nproc) {
    turn.out.emplace_back(SpawnWorker{spawned_});
  }
}

void SupervisorCore::note_spawn_failure(Turn& turn) {
  const auto& failed = std::get<SpawnFailed>(turn.event);
  WorkerFailure failure;
  failure.local_rank = failed.local_rank;
  failure.spawn_error = failed.error;
  record(std::move(failure), false);
  // No worker was started, so times_.spawned_at is still the time of an earlier attempt. Update it,
  // because it determines the run time of this failure, and thus whether the failure counts as
  // quick.
  if (live_.empty()) {
    times_.spawned_at = turn.now;
  }
  take_failure(turn);
}

void SupervisorCore::regroup(Turn& turn) {
  if (preempt_.of_node && std::get<RegroupNotice>(turn.event).is_planned) {
    MUSTER_MARK("a preempted node has saved before this one");
    preempt_.regroups = true;
    return;
  }
  if (!mend_.epoch) {
    report_failures(turn);  // otherwise the mend has counted them
  }
  stop_workers(turn, Why::regroup, SIGTERM);
}

// True if the signal is only for the workers. Ctrl-Z is passed to them as SIGSTOP, because SIGTSTP
// has no effect on an orphaned process group.
bool SupervisorCore::relay(Turn& turn, const SignalReceived& signal) {
  const int signo = signal.signo;
  if (signal.reached_workers) {
    return is_passed_on(signo);
  }
  if (signo == SIGTSTP || signo == SIGCONT) {
    mend_.suspended = signo == SIGTSTP;
    if (state_ == SupervisorState::mending) {
      restart_mend_clock(turn.now);
    }
    turn.out.emplace_back(SignalGroups{signo == SIGTSTP ? SIGSTOP : SIGCONT});
  } else if (is_passed_on(signo)) {
    turn.out.emplace_back(SignalWorkers{signo});
  }
  return is_passed_on(signo);
}

void SupervisorCore::take_signal(Turn& turn) {
  const auto& signal = std::get<SignalReceived>(turn.event);
  if (relay(turn, signal)) {
    return;
  }
  note_interruption(turn, signal);
  // A signal that is not forwarded kills the workers immediately, just as it kills a program
  // without a handler.
  if (!settings_.signals_to_forward.contains(signal.signo)) {
    MUSTER_MARK("a signal that is not forwarded kills the workers at once");
    why_ = Why::interrupted;
    kill(turn, kSelfExitTime);
    return;
  }
  if (signal.reached_workers) {
    drain(turn, signal.signo);
  } else {
    stop_workers(turn, Why::interrupted, signal.signo);
  }
}

// Signals all workers to stop. If none was started, or all have exited, there is nothing to wait
// for.
void SupervisorCore::stop_workers(Turn& turn, Why why, int signo) {
  why_ = why;
  result_.stop_signal = signo;
  stop_until_ = grace_until(turn.now);
  if (spawned_ == 0 || groups_empty_) {
    clear(turn);
    return;
  }
  // Helpers have time to exit on their own even without a grace period (LEFTOVERS.md).
  if (settings_.grace <= Duration::zero()) {
    kill(turn, kSelfExitTime);
    return;
  }
  state_ = SupervisorState::stopping;
  deadline_ = stop_until_;
  turn.out.emplace_back(SignalGroups{signo, GroupsOf::running_workers});
  defer_skipped(turn);
  // A stopped process handles no signal except SIGKILL until it is continued.
  turn.out.emplace_back(SignalGroups{SIGCONT});
  await_deaf(turn);
  if (why == Why::regroup) {
    turn.out.emplace_back(ExpectRound{});
  }
}

// -- stopping ---------------------------------------------------------------------------------

void SupervisorCore::note_late_exit(Turn& turn) {
  const auto& exited = std::get<WorkerExited>(turn.event);
  if (leftovers_.skipped_at) {
    defer_skipped(turn);
  }
  live_.erase(exited.local_rank);
  dying_.erase(exited.local_rank);
  await_deaf(turn);
  if (early_ == exited.local_rank) {
    complete_early(exited);
    return;
  }
  // Workers that were killed at the deadline of a preemption have not failed.
  if (exited.failure && !preempt_.has_expired) {
    record(*exited.failure, true);
    // The root cause has not been determined yet, and the error file of this worker may show that
    // it failed first.
    if (why_ == Why::regroup) {
      report_failure(turn, result_.failures.back(), turn.now);
    }
  }
}

void SupervisorCore::raise_to_regroup(Turn& /*turn*/) {
  // Any existing reason to stop takes precedence, and leads to a new round or to the end of the
  // job.
  MUSTER_MARK("regroup while the workers are being stopped");
  if (why_ == Why::finished || why_ == Why::preempted) {
    MUSTER_MARK("regroup while leftovers of finished workers are being killed");
    why_ = Why::regroup;
  }
}

void SupervisorCore::take_second_signal(Turn& turn) {
  const auto& signal = std::get<SignalReceived>(turn.event);
  if (relay(turn, signal)) {
    return;
  }
  if (result_.interrupting_signal == 0) {
    MUSTER_MARK("interrupted while the workers are being stopped");
    note_interruption(turn, signal);
    // Once the job has failed or ended, a signal does not change the outcome.
    if (why_ != Why::give_up && why_ != Why::closed) {
      why_ = Why::interrupted;
      deadline_ = signal.reached_workers ? std::max(deadline_, {drained_by(turn.now)}) : deadline_;
      stop_until_ = deadline_;
    }
    // The workers have already received the signal that is stopping them.
    if (signal.signo != result_.stop_signal && !signal.reached_workers) {
      turn.out.emplace_back(SignalGroups{signal.signo});
    }
    return;
  }
  kill_on_second(turn, signal);
}

void SupervisorCore::kill_on_second(Turn& turn, const SignalReceived& signal) {
  if (is_same_request(signal, turn.now)) {
    MUSTER_MARK("the same request to stop, sent twice");
    return;
  }
  if (signal.signo == SIGINT || signal.signo == SIGTERM || signal.signo == SIGQUIT) {
    MUSTER_MARK("a second signal skips the grace period");
    if (!live_.empty()) {
      TellKilledEarly early{signal.signo, {}};
      for (const auto& [local_rank, pid] : live_) {
        early.local_ranks.push_back(local_rank);
      }
      turn.out.emplace_back(std::move(early));
    }
    kill(turn, kSelfExitTimeInHurry);
  }
}

bool SupervisorCore::is_same_request(const SignalReceived& signal, TimePoint now) const {
  return is_repeated_by_scheduler(signal.signo) || (signal.signo == result_.interrupting_signal &&
                                                    now - times_.signalled_at < kSameRequestTime);
}

void SupervisorCore::kill_overdue(Turn& turn) {
  signal_skipped(turn);
  look_for_deaf(turn);
  if (turn.now < deadline_) {
    return;
  }
  MUSTER_MARK("grace period expired");
  for (const auto& [local_rank, pid] : live_) {
    // A worker that is dying has obeyed the stop request in time. The kernel is still freeing its
    // memory.
    if (!dying_.contains(local_rank)) {
      result_.overdue.push_back(local_rank);
    }
  }
  turn.out.emplace_back(KillWorkers{});
  clear(turn);
}

// -- killing ----------------------------------------------------------------------------------

void SupervisorCore::take_late_signal(Turn& turn) {
  const auto& signal = std::get<SignalReceived>(turn.event);
  if (is_passed_on(signal.signo)) {
    return;
  }
  if (why_ != Why::regroup && why_ != Why::finished) {
    // A user or scheduler is waiting for us to exit, so do not wait until the memory of dying
    // workers is freed.
    times_.dying_until = turn.now;
    hurry(turn);
    return;
  }
  MUSTER_MARK("interrupted just before a restart");
  why_ = Why::interrupted;
  note_interruption(turn, signal);
  hurry(turn);
}

// Our parent (the guard) is dead. If this process died too, no process could stop the workers.
void SupervisorCore::kill_orphaned(Turn& turn) {
  why_ = Why::orphaned;
  stop_until_.reset();
  if (state_ == SupervisorState::killing) {
    hurry(turn);
  } else {
    turn.out.emplace_back(KillWorkers{});
    clear(turn);
  }
}

// torch_shm_manager keeps its time, unless somebody waits for us to exit.
void SupervisorCore::hurry(Turn& turn) {
  deadline_ = std::min(*deadline_, turn.now + kKillTimeout);
  if (leftovers_.kill_all_at && (is_urgent() || !leftovers_.shm_manager)) {
    leftovers_.kill_all_at = std::min(
        *leftovers_.kill_all_at, turn.now + (is_urgent() ? kSelfExitTimeInHurry : kSelfExitTime));
  }
}

Duration SupervisorCore::console_timeout() const {
  switch (why_) {
    case Why::regroup:
      return settings_.console_timeout_between;
    case Why::interrupted:
      return kConsoleTimeoutInterrupted;
    case Why::orphaned:
      return {};
    default:
      return kConsoleTimeoutAtEnd;
  }
}

// Reports to the round source before it waits for our own output, because the other nodes may be
// waiting for this node.
void SupervisorCore::go_on(Turn& turn) {
  leftovers_.kill_all_at.reset();
  leftovers_.look_at.reset();
  // If processes could not be killed by the deadline, muster must exit without further waits.
  const Duration timeout = turn.now < deadline_ ? console_timeout() : Duration{};
  switch (why_) {
    case Why::finished:
      finish_round(turn);
      return;
    case Why::preempted:
      finish_preempted(turn, timeout);
      return;
    case Why::regroup:
      turn.out.emplace_back(TellGone{});
      close_attempt(turn, timeout);
      begin_round(turn);
      return;
    case Why::interrupted:
      if (!closed_) {
        wait_to_leave(turn);
        return;
      }
      end_attempt(turn, timeout, Outcome::interrupted);
      return;
    case Why::give_up:
      end_attempt(turn, timeout, Outcome::failed);
      return;
    case Why::orphaned:
      end_attempt(turn, timeout, Outcome::orphaned);
      return;
    case Why::closed:
      end_attempt(turn, timeout, closed_.value());
      return;
    case Why::nothing:
      break;
  }
  MUSTER_CHECK(!"workers were stopped without a reason");
}

void SupervisorCore::end_attempt(Turn& turn, Duration timeout, Outcome outcome) {
  close_attempt(turn, timeout);
  finish(turn, outcome);
}

void SupervisorCore::abandon_unkillable(Turn& turn) {
  kill_last(turn);
  if (turn.now < deadline_) {
    return;
  }
  if (waits_for_memory(turn.now)) {
    MUSTER_MARK("waiting only for the memory of a dying worker");
    deadline_ = times_.dying_until;
    return;
  }
  MUSTER_MARK("some processes cannot be killed");
  for (const auto& [local_rank, pid] : live_) {
    result_.survivors.push_back(Survivor{pid, '?', fmt::format("local rank {}", local_rank)});
  }
  turn.out.emplace_back(NameSurvivors{});
  // Do not restart while processes of the previous attempt still exist.
  if (why_ == Why::regroup) {
    result_.verdict = "not restarted: processes of the last attempt could not be killed";
    why_ = Why::give_up;
  }
  if (why_ == Why::interrupted) {
    // Some processes remain, so do not report to the other nodes that all are gone.
    end_attempt(turn, Duration{}, Outcome::interrupted);
    return;
  }
  go_on(turn);
}

void SupervisorCore::finish(Turn& turn, Outcome outcome) {
  state_ = SupervisorState::done;
  deadline_.reset();
  leftovers_.kill_all_at.reset();
  leave_at_.reset();
  result_.outcome = outcome;
  turn.out.emplace_back(Finish{});
}

// -- what the shell adds ----------------------------------------------------------------------

const std::vector<WorkerFailure>& SupervisorCore::closed_failures() const {
  MUSTER_CHECK(!attempt_open_);
  // If another attempt follows, begin_round() has already set the failures aside.
  return state_ == SupervisorState::joining ? failures_before_ : result_.failures;
}

// The core lists the workers that were not reaped. `known`, from the runner, has more details about
// processes that are still running.
void SupervisorCore::add_survivors(const std::vector<Survivor>& known) {
  std::vector<Survivor> all = known;
  for (Survivor& worker : result_.survivors) {
    if (std::ranges::find(known, worker.pid, &Survivor::pid) == known.end()) {
      all.push_back(std::move(worker));
    }
  }
  result_.survivors = std::move(all);
}

// -- introspection ----------------------------------------------------------------------------

std::string SupervisorCore::describe() const {
  static constexpr std::array kStateNames{
      "joining", "running", "mending", "stopping", "clearing", "killing", "waiting", "done"};
  static constexpr std::array kWhyNames{
      "-", "finished", "regroup", "give_up", "interrupted", "orphaned", "closed", "preempted"};
  return fmt::format("{} why={} attempt={} live={}/{} failures={}",
                     kStateNames.at(static_cast<std::size_t>(state_)),
                     kWhyNames.at(static_cast<std::size_t>(why_)),
                     result_.attempt,
                     live_.size(),
                     spawned_,
                     result_.failures.size());
}

SupervisorFacts SupervisorCore::facts() const {
  SupervisorFacts facts;
  facts.state = state_;
  facts.why = why_;
  facts.has_deadline = deadline_.has_value();
  facts.spares_helpers = leftovers_.kill_all_at.has_value();
  facts.attempt_open = attempt_open_;
  facts.closed = closed_.has_value();
  facts.starts = starts_;
  facts.spawned = spawned_;
  facts.others = others_;
  for (const auto& [local_rank, pid] : live_) {
    facts.live.insert(local_rank);
  }
  facts.dying = dying_;
  facts.awaits_signal = awaits_signal_;
  facts.early = early_;
  facts.holders = mend_.holders;
  facts.missing = mend_.missing;
  facts.result = result_;
  return facts;
}

void SupervisorCore::check_invariants() const {
  const std::string_view broken = broken_invariant(facts());
  if (!broken.empty()) {
    check_failed(broken, describe(), __LINE__);
  }
}

}  // namespace muster
