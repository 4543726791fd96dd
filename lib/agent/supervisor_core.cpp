// SPDX-License-Identifier: Apache-2.0
#include "agent/supervisor_core.hpp"

#include "base/check.hpp"
#include "base/mark.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

namespace muster {
namespace {

std::string describe_signal(const SignalReceived& signal) {
  return fmt::format("told to end by {}", signal_name(signal.signo));
}

// The end without what differs from time to time: pids, and how much memory was used.
FailureFacts facts_of(const WorkerFailure& failure, Duration run_time) {
  if (failure.spawn_error) {
    const bool permanent = failure.spawn_error->code != Errc::system;
    return {"could not be started", permanent, run_time};
  }
  return {failure.status.describe(), false, run_time};
}

}  // namespace

SupervisorCore::SupervisorCore(SupervisorSettings settings)
    : settings_(std::move(settings)), policy_(settings_.max_restarts) {
  result_.max_restarts = settings_.max_restarts;
}

bool SupervisorCore::is_passed_on(int signo) {
  return signo == SIGUSR1 || signo == SIGUSR2 || signo == SIGTSTP || signo == SIGCONT;
}

// -- joining ----------------------------------------------------------------------------------

void SupervisorCore::open_first_round(Turn& turn) {
  begin_round(turn);
}

void SupervisorCore::begin_round(Turn& turn) {
  state_ = SupervisorState::joining;
  why_ = Why::nothing;
  deadline_.reset();
  spawned_ = 0;
  live_.clear();
  dying_.clear();
  early_.reset();
  result_.failures.clear();
  result_.overdue.clear();
  result_.stop_signal = SIGTERM;
  if (settings_.shared_round) {
    turn.out.emplace_back(AwaitRound{starts_});
  } else {
    turn.out.emplace_back(OpenRound{starts_, policy_.restarts()});
  }
}

void SupervisorCore::spawn_first(Turn& turn) {
  const auto& formed = std::get<RoundFormed>(turn.event);
  MUSTER_CHECK(formed.nproc > 0);
  result_.nproc = formed.nproc;
  rank_first_ = formed.rank_first;
  state_ = SupervisorState::running;
  attempt_open_ = true;
  result_.attempt = starts_++;
  turn.out.emplace_back(SpawnWorker{0});
}

void SupervisorCore::end_unstarted(Turn& turn) {
  result_.error = std::get<RoundFailed>(turn.event).error;
  finish(turn, Outcome::not_started);
}

void SupervisorCore::end_before_start(Turn& turn) {
  const auto& signal = std::get<SignalReceived>(turn.event);
  if (is_passed_on(signal.signo)) {
    return;
  }
  MUSTER_MARK("interrupted before the first worker");
  note_interruption(turn, signal);
  if (settings_.shared_round) {
    wait_to_leave(turn);
    return;
  }
  finish(turn, Outcome::interrupted);
}

void SupervisorCore::note_interruption(Turn& turn, const SignalReceived& signal) {
  result_.interrupting_signal = signal.signo;
  result_.interrupting_sender = signal.sender;
  signalled_at_ = turn.now;
  if (settings_.shared_round && !closed_) {
    turn.out.emplace_back(LeaveRound{describe_signal(signal)});
  }
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
  spawned_at_ = turn.now;
  if (spawned_ < result_.nproc) {
    turn.out.emplace_back(SpawnWorker{spawned_});
  }
}

void SupervisorCore::note_spawn_failure(Turn& turn) {
  const auto& failed = std::get<SpawnFailed>(turn.event);
  WorkerFailure failure;
  failure.local_rank = failed.local_rank;
  failure.rank = rank_first_ + failed.local_rank;
  failure.attempt = result_.attempt;
  failure.spawn_error = failed.error;
  result_.failures.push_back(std::move(failure));
  if (live_.empty()) {
    spawned_at_ = turn.now;
  }
  decide_after_failure(turn);
}

void SupervisorCore::note_exit(Turn& turn) {
  const auto& exited = std::get<WorkerExited>(turn.event);
  live_.erase(exited.exit.local_rank);
  if (!exited.exit.status.success()) {
    record(exited.exit, exited.wall_seconds, false);
    decide_after_failure(turn);
    return;
  }
  if (live_.empty()) {
    why_ = Why::finished;
    sweep(turn);
  }
}

// As its exit, but that it is not reaped: nothing is done that relies on its end.
void SupervisorCore::note_dying(Turn& turn) {
  const auto& event = std::get<WorkerDying>(turn.event);
  MUSTER_CHECK(!event.exit.status.success());
  note_also_dying(turn);
  early_ = event.exit.local_rank;
  record(event.exit, event.wall_seconds, false);
  decide_after_failure(turn);
}

// The failure was recorded when it began; the wait status may know more (a core was dumped).
void SupervisorCore::complete_early(const WorkerExit& exit) {
  early_.reset();
  if (exit.status.success()) {
    return;
  }
  WorkerFailure& first = result_.failures.front();
  MUSTER_CHECK(first.local_rank == exit.local_rank);
  first.status = exit.status;
  if (exit.out_of_memory) {
    first.out_of_memory = true;
    first.memory_words = exit.memory_words;
  }
}

void SupervisorCore::note_also_dying(Turn& turn) {
  const int local_rank = std::get<WorkerDying>(turn.event).exit.local_rank;
  MUSTER_CHECK(live_.contains(local_rank));
  dying_.insert(local_rank);
  dying_until_ = turn.now + kKillPatienceBeforeRestart;
}

// Whether all workers are as good as gone, and nobody is in a hurry.
bool SupervisorCore::waits_for_memory(TimePoint now) const {
  return !dying_.empty() && dying_.size() == live_.size() && now < dying_until_ &&
         why_ != Why::interrupted && why_ != Why::orphaned && result_.interrupting_signal == 0;
}

void SupervisorCore::record(const WorkerExit& exit, double wall_seconds, bool after_stop) {
  WorkerFailure failure;
  failure.local_rank = exit.local_rank;
  failure.rank = rank_first_ + exit.local_rank;
  failure.pid = exit.pid;
  failure.attempt = result_.attempt;
  failure.status = exit.status;
  failure.out_of_memory = exit.out_of_memory;
  failure.memory_words = exit.memory_words;
  failure.after_stop = after_stop;
  failure.wall_seconds = wall_seconds;
  result_.failures.push_back(std::move(failure));
}

void SupervisorCore::decide_after_failure(Turn& turn) {
  if (settings_.shared_round) {
    report_failure(turn);
    stop_workers(turn, Why::regroup, SIGTERM);
    return;
  }
  const WorkerFailure& first = result_.failures.front();
  const RestartDecision decision = policy_.decide(facts_of(first, turn.now - spawned_at_));
  if (decision.restart) {
    turn.out.emplace_back(Warn{fmt::format("rank {} (pid {}) {}; restarting all workers: {}",
                                           first.rank,
                                           first.pid,
                                           describe_end(first),
                                           decision.reason)});
  } else {
    result_.verdict = decision.reason;
  }
  stop_workers(turn, decision.restart ? Why::restart : Why::give_up, SIGTERM);
}

void SupervisorCore::regroup(Turn& turn) {
  stop_workers(turn, Why::regroup, SIGTERM);
}

// Whether it was a signal that is for the workers alone. Ctrl-Z reaches them as SIGSTOP, since
// SIGTSTP does nothing to a group without a shell above it.
// NOLINTNEXTLINE(readability-convert-member-functions-to-static)
bool SupervisorCore::relay(Turn& turn, int signo) {
  if (signo == SIGTSTP || signo == SIGCONT) {
    turn.out.emplace_back(SignalGroups{signo == SIGTSTP ? SIGSTOP : SIGCONT});
  } else if (is_passed_on(signo)) {
    turn.out.emplace_back(SignalWorkers{signo});
  }
  return is_passed_on(signo);
}

void SupervisorCore::take_signal(Turn& turn) {
  const auto& signal = std::get<SignalReceived>(turn.event);
  if (relay(turn, signal.signo)) {
    return;
  }
  note_interruption(turn, signal);
  if (!settings_.signals_to_forward.contains(signal.signo)) {
    MUSTER_MARK("a signal that is not forwarded ends the workers at once");
    why_ = Why::interrupted;
    sweep(turn);
    return;
  }
  stop_workers(turn, Why::interrupted, signal.signo);
}

// Tells all workers to stop; those that were never started, or are all gone, leave nothing to wait
// for.
void SupervisorCore::stop_workers(Turn& turn, Why why, int signo) {
  why_ = why;
  result_.stop_signal = signo;
  if (spawned_ == 0 || settings_.grace <= Duration::zero()) {
    sweep(turn);
    return;
  }
  state_ = SupervisorState::stopping;
  deadline_ = turn.now + settings_.grace;
  turn.out.emplace_back(SignalGroups{signo});
  // A stopped process acts on nothing but SIGKILL until it is continued.
  turn.out.emplace_back(SignalGroups{SIGCONT});
}

// -- stopping ---------------------------------------------------------------------------------

void SupervisorCore::note_late_exit(Turn& turn) {
  const auto& exited = std::get<WorkerExited>(turn.event);
  live_.erase(exited.exit.local_rank);
  dying_.erase(exited.exit.local_rank);
  if (early_ == exited.exit.local_rank) {
    complete_early(exited.exit);
    return;
  }
  if (!exited.exit.status.success()) {
    record(exited.exit, exited.wall_seconds, true);
    if (settings_.shared_round && why_ == Why::regroup) {
      report_failure(turn);
    }
  }
}

void SupervisorCore::sweep_leftovers(Turn& turn) {
  sweep(turn);
}

// The grace may have been left out for descendants that went to groups of their own: after the
// workers' end nobody waits for them.
void SupervisorCore::sweep(Turn& turn) {
  const bool goes_on = why_ == Why::restart || why_ == Why::regroup;
  state_ = SupervisorState::killing;
  deadline_ = turn.now + (goes_on ? kKillPatienceBeforeRestart : kKillPatience);
  turn.out.emplace_back(KillEverything{});
}

void SupervisorCore::raise_to_regroup(Turn& /*turn*/) {
  // Any reason to stop that we already have is at least as strong, and ends in a new round or in
  // the end of the job.
  MUSTER_MARK("regroup while the workers are being stopped");
  if (settings_.shared_round && why_ == Why::finished) {
    MUSTER_MARK("regroup while what finished workers left is being killed");
    why_ = Why::regroup;
  }
}

void SupervisorCore::take_second_signal(Turn& turn) {
  const auto& signal = std::get<SignalReceived>(turn.event);
  if (relay(turn, signal.signo)) {
    return;
  }
  if (result_.interrupting_signal == 0) {
    MUSTER_MARK("interrupted while the workers are being stopped");
    note_interruption(turn, signal);
    if (why_ != Why::give_up && why_ != Why::closed) {
      why_ = Why::interrupted;
    }
    if (signal.signo != result_.stop_signal) {
      turn.out.emplace_back(SignalGroups{signal.signo});
    }
    return;
  }
  if (signal.signo == result_.interrupting_signal && turn.now - signalled_at_ < kSameRequestTime) {
    MUSTER_MARK("the same request to stop, sent twice");
    return;
  }
  if (signal.signo == SIGINT || signal.signo == SIGTERM || signal.signo == SIGQUIT) {
    MUSTER_MARK("a second signal skips the grace");
    sweep(turn);
  }
}

void SupervisorCore::kill_overdue(Turn& turn) {
  if (turn.now < deadline_) {
    return;
  }
  MUSTER_MARK("grace over");
  for (const auto& [local_rank, pid] : live_) {
    if (!dying_.contains(local_rank)) {
      result_.overdue.push_back(local_rank);
    }
  }
  sweep(turn);
}

// -- killing ----------------------------------------------------------------------------------

void SupervisorCore::take_late_signal(Turn& turn) {
  const auto& signal = std::get<SignalReceived>(turn.event);
  const bool goes_on = why_ == Why::restart || why_ == Why::regroup;
  const bool would_wait = settings_.shared_round && why_ == Why::finished;
  if (is_passed_on(signal.signo)) {
    return;
  }
  if (!goes_on && !would_wait) {
    dying_until_ = turn.now;
    hurry(turn);
    return;
  }
  MUSTER_MARK("interrupted just before a restart");
  why_ = Why::interrupted;
  note_interruption(turn, signal);
  hurry(turn);
}

void SupervisorCore::kill_orphaned(Turn& turn) {
  why_ = Why::orphaned;
  if (state_ == SupervisorState::killing) {
    hurry(turn);
  } else {
    sweep(turn);
  }
}

void SupervisorCore::hurry(Turn& turn) {
  deadline_ = std::min(*deadline_, turn.now + kKillPatience);
}

Duration SupervisorCore::console_patience() const {
  switch (why_) {
    case Why::restart:
    case Why::regroup:
      return settings_.console_patience_between;
    case Why::interrupted:
      return kConsolePatienceInterrupted;
    case Why::orphaned:
      return {};
    default:
      return kConsolePatienceAtEnd;
  }
}

void SupervisorCore::go_on(Turn& turn) {
  if (settings_.shared_round && why_ != Why::give_up && why_ != Why::orphaned) {
    go_on_shared(turn);
    return;
  }
  close_attempt(turn, turn.now < deadline_ ? console_patience() : Duration{});
  switch (why_) {
    case Why::finished:
      finish(turn, Outcome::succeeded);
      return;
    case Why::regroup:
    case Why::restart:
      begin_round(turn);
      return;
    case Why::give_up:
      finish(turn, Outcome::failed);
      return;
    case Why::interrupted:
      finish(turn, Outcome::interrupted);
      return;
    case Why::orphaned:
      finish(turn, Outcome::orphaned);
      return;
    case Why::closed:
    case Why::nothing:
      break;
  }
  MUSTER_CHECK(!"workers were stopped without a reason");
}

void SupervisorCore::abandon_unkillable(Turn& turn) {
  if (turn.now < deadline_) {
    return;
  }
  if (waits_for_memory(turn.now)) {
    MUSTER_MARK("only the memory of a dying worker is waited for");
    deadline_ = dying_until_;
    return;
  }
  MUSTER_MARK("processes that cannot be killed");
  for (const auto& [local_rank, pid] : live_) {
    result_.survivors.push_back(Survivor{pid, '?', fmt::format("local rank {}", local_rank)});
  }
  turn.out.emplace_back(NameSurvivors{});
  if (why_ == Why::restart || why_ == Why::regroup) {
    result_.verdict = "no restart beside processes that cannot be killed";
    why_ = Why::give_up;
  }
  if (settings_.shared_round && why_ == Why::interrupted) {
    close_attempt(turn, Duration{});  // the others must not be told that nothing is left
    finish(turn, Outcome::interrupted);
    return;
  }
  go_on(turn);
}

void SupervisorCore::finish(Turn& turn, Outcome outcome) {
  state_ = SupervisorState::done;
  deadline_.reset();
  result_.outcome = outcome;
  turn.out.emplace_back(Finish{});
}

// -- seeing inside ----------------------------------------------------------------------------

std::string SupervisorCore::describe() const {
  static constexpr std::array kStateNames{
      "joining", "running", "stopping", "killing", "waiting", "done"};
  static constexpr std::array kWhyNames{
      "-", "finished", "regroup", "restart", "give_up", "interrupted", "orphaned", "closed"};
  return fmt::format("{} why={} attempt={} restarts={} live={}/{} failures={}",
                     kStateNames.at(static_cast<std::size_t>(state_)),
                     kWhyNames.at(static_cast<std::size_t>(why_)),
                     result_.attempt,
                     policy_.restarts(),
                     live_.size(),
                     spawned_,
                     result_.failures.size());
}

void SupervisorCore::check_invariants() const {
  MUSTER_CHECK(policy_.restarts() <= settings_.max_restarts);
  MUSTER_CHECK(static_cast<int>(live_.size()) <= spawned_);
  MUSTER_CHECK(std::ranges::all_of(dying_, [&](int rank) { return live_.contains(rank); }));
  const bool early_is_dying = !early_ || dying_.contains(*early_);
  MUSTER_CHECK(early_is_dying);
  MUSTER_CHECK(spawned_ <= result_.nproc);
  const bool ends = state_ == SupervisorState::stopping || state_ == SupervisorState::killing;
  const bool waits = state_ == SupervisorState::waiting;
  MUSTER_CHECK((ends || (waits && why_ == Why::interrupted)) == deadline_.has_value());
  MUSTER_CHECK(!waits || settings_.shared_round);
  const bool has_reason = why_ != Why::nothing;
  if (state_ != SupervisorState::done) {
    MUSTER_CHECK((ends || waits) == has_reason);
  }
  if (state_ == SupervisorState::running && spawned_ == result_.nproc) {
    MUSTER_CHECK(!live_.empty());
    MUSTER_CHECK(result_.failures.empty());
  }
}

}  // namespace muster
