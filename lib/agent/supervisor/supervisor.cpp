// SPDX-License-Identifier: Apache-2.0
#include "agent/supervisor/supervisor.hpp"

#include "agent/failures/lost_connection.hpp"
#include "base/plural.hpp"

#include <fmt/core.h>

#include <type_traits>
#include <utility>

namespace muster {
namespace {

using Fate = event::LeftoversFound::Fate;

}  // namespace

Supervisor::Supervisor(WorkerSite& site, RoundSource& rounds, SupervisorSettings settings)
    : site_(site), rounds_(rounds), core_(std::move(settings)) {}

void Supervisor::on_worker_exit(const WorkerExit& exit) {
  site_.tell(event::WorkerEnded{exit, rank_of(exit.local_rank), true});
  // The guard may have killed the worker because this process was stopped for longer than its
  // lease. This call then delivers Fenced before the exit is judged.
  rounds_.check_lease();
  WorkerExited exited{exit.local_rank, std::nullopt};
  exited.asks_again = exit.status == ExitStatus{.value = kPreemptedCode};
  if (!core_.is_success(exit.status)) {
    exited.failure = failure_of(exit);
  }
  handle(exited);
}

// Called when a worker begins to die and when it is reaped. Its output and its error file are
// complete by the first call, so the evidence is read only then.
const WorkerFailure& Supervisor::failure_of(const WorkerExit& exit) {
  const auto [at, is_new] = failures_.try_emplace(exit.local_rank);
  WorkerFailure& failure = at->second;
  static_cast<WorkerExit&>(failure) = exit;
  failure.wall_seconds = site_.wall_seconds();
  if (is_new) {
    failure.attempt = core_.result().attempt;
    failure.rank = rank_of(exit.local_rank);
    failure.run_time = site_.now() - spawned_at_;
    site_.add_evidence(failure);
  }
  // Once the workers are being stopped, a lost connection is the result of the stop.
  failure.lost_connection =
      core_.state() == SupervisorState::running && is_lost_connection(failure);
  return failure;
}

// The core waits for other workers after a lost connection or a startup error, so such a failure
// can wait until the worker is reaped.
void Supervisor::on_worker_dying(const WorkerExit& exit) {
  if (core_.is_success(exit.status)) {
    return;
  }
  const WorkerFailure& failure = failure_of(exit);
  if (!failure.lost_connection && !failure.startup_error) {
    on_worker_killed(exit);
  }
}

void Supervisor::on_worker_killed(const WorkerExit& exit) {
  site_.tell(event::WorkerEnded{exit, rank_of(exit.local_rank), false});
  rounds_.check_lease();
  WorkerFailure failure = failure_of(exit);
  failure.lost_connection = false;  // whatever the worker printed, it died because we killed it
  failure.startup_error = false;
  handle(failure);
}

void Supervisor::on_groups_empty() {
  handle(GroupsEmpty{});
}

void Supervisor::on_nothing_left() {
  // Report the killed processes first, because the event may start the next attempt.
  tell_killed();
  handle(NothingLeft{});
}

void Supervisor::handle(const SupervisorEvent& event) {
  events_.push_back(event);
  if (handling_) {
    return;
  }
  handling_ = true;
  handle_all();
  handling_ = false;
  site_.set_alarm(core_.next_deadline());
}

// After a spawn, its result is passed to the core before the next effect. Observers are never
// called from within the runner, and calls to the round source are queued, so no other event can
// intervene.
void Supervisor::handle_all() {
  while (!events_.empty()) {
    const SupervisorEvent next = std::move(events_.front());
    events_.pop_front();
    step(next);
    while (!effects_.empty()) {
      const SupervisorEffect effect = std::move(effects_.front());
      effects_.pop_front();
      perform(effect);
    }
  }
}

void Supervisor::run_round(RoundToRun round) {
  specs_ = std::move(round.specs);
  failures_.clear();
  handle(RoundFormed{round.nproc, round.rank_first, round.others});
}

void Supervisor::run_mend(MendToRun mend) {
  for (ProcessSpec& spec : mend.specs) {
    const auto index = static_cast<std::size_t>(spec.local_rank);
    specs_->at(index) = std::move(spec);
  }
  handle(MendFormed{mend.number, mend.epoch, mend.last});
}

void Supervisor::step(const SupervisorEvent& event) {
  std::vector<SupervisorEffect> out;
  core_.step(site_.now(), event, out);
#ifndef NDEBUG
  core_.check_invariants();
#endif
  effects_.insert(effects_.end(), out.begin(), out.end());
}

void Supervisor::perform(const SupervisorEffect& effect) {
  std::visit(
      [this]<class Effect>(const Effect& asked) {
        if constexpr (std::is_same_v<Effect, AwaitRound>) {
          rounds_.await_round(asked.attempt);
        } else if constexpr (std::is_same_v<Effect, ExpectRound>) {
          rounds_.expect_round();
        } else if constexpr (std::is_same_v<Effect, TellGone>) {
          rounds_.tell_gone();
        } else if constexpr (std::is_same_v<Effect, WorkerFailure>) {
          rounds_.report_failure(asked);
        } else if constexpr (std::is_same_v<Effect, ReportSuccess>) {
          rounds_.report_success();
        } else if constexpr (std::is_same_v<Effect, ReportFinished>) {
          rounds_.report_finished();
        } else if constexpr (std::is_same_v<Effect, LeaveRound>) {
          rounds_.leave_round(asked);
        } else if constexpr (std::is_same_v<Effect, TellDrain>) {
          tell_drain(asked);
        } else if constexpr (std::is_same_v<Effect, AskMend>) {
          ask_mend(asked);
        } else if constexpr (std::is_same_v<Effect, TellReady>) {
          tell_ready(asked.epoch);
        } else if constexpr (std::is_same_v<Effect, EndMend>) {
          rounds_.end_mend(asked.reason);
        } else if constexpr (std::is_same_v<Effect, WarnOfMend>) {
          site_.tell(event::Message{LogLevel::warning, asked.text});
        } else if constexpr (std::is_same_v<Effect, KillTree>) {
          kill_tree(asked);
        } else if constexpr (std::is_same_v<Effect, CloseFailures>) {
          close_failures(asked.failures);
        } else if constexpr (std::is_same_v<Effect, TellMended>) {
          tell_mended(asked);
        } else if constexpr (std::is_same_v<Effect, SpawnWorker>) {
          spawn(asked.local_rank);
        } else if constexpr (std::is_same_v<Effect, SignalGroups>) {
          signal_groups(asked);
        } else if constexpr (std::is_same_v<Effect, SignalWorkers>) {
          site_.runner().signal_workers(asked.signo);
        } else if constexpr (std::is_same_v<Effect, KillEverything>) {
          kill(asked.names);
          site_.runner().kill_everything();
        } else if constexpr (std::is_same_v<Effect, KillWorkers>) {
          kill(asked.names);
          site_.runner().kill_workers();
        } else if constexpr (std::is_same_v<Effect, AwaitNothingLeft>) {
          site_.runner().await_nothing_left();
        } else if constexpr (std::is_same_v<Effect, NameLeftovers>) {
          tell_leftovers({Fate::awaited, site_.runner().leftovers(), asked.left});
        } else if constexpr (std::is_same_v<Effect, AskLeftovers>) {
          tell_leftovers({Fate::asked, site_.runner().ask_leftovers()});
        } else if constexpr (std::is_same_v<Effect, LookAtLeftovers>) {
          handle(site_.runner().look_at_leftovers());
        } else if constexpr (std::is_same_v<Effect, TellKilledEarly>) {
          tell_killed_early(asked);
        } else if constexpr (std::is_same_v<Effect, TellLate>) {
          site_.tell_late(asked.local_ranks);
        } else if constexpr (std::is_same_v<Effect, NameSurvivors>) {
          name_survivors();
        } else if constexpr (std::is_same_v<Effect, CloseAttempt>) {
          close_attempt(asked.timeout);
        } else {
          static_assert(std::is_same_v<Effect, Finish>);
          rounds_.close();
          site_.finished(core_.result());
        }
      },
      effect);
}

void Supervisor::ask_mend(AskMend ask) {
  if (std::string obstacle = site_.mend_obstacle(); !obstacle.empty()) {
    handle(MendRefused{ask.number, std::move(obstacle)});
    return;
  }
  ask.step = site_.last_step();
  rounds_.ask_mend(ask);
}

void Supervisor::tell_ready(std::uint64_t epoch) {
  rounds_.tell_ready(epoch);
  site_.keep_spares();
}

// These processes are then not listed as killed, too.
void Supervisor::name_survivors() {
  core_.add_survivors(site_.runner().survivors());
  names_killed_ = false;
}

void Supervisor::kill_tree(const KillTree& asked) {
  const int rank = rank_of(asked.local_rank);
  if (asked.deaf) {
    site_.tell(event::Message{
        LogLevel::warning,
        fmt::format("rank {} did not react to the loss of another rank within {}: killing it. It "
                    "may be stopped, be stuck in a system call, or hold Python's interpreter lock",
                    rank,
                    describe(kHeardTimeout))});
  }
  site_.runner().kill_tree(asked.local_rank, rank);
}

void Supervisor::tell_drain(const TellDrain& drain) {
  site_.tell(event::Message{
      LogLevel::warning,
      fmt::format("{} from the scheduler: the job will not restart, and the workers have {} to "
                  "exit{}",
                  signal_name(drain.signo),
                  describe(drain.left),
                  drain.until_job_ends ? ", until shortly after SLURM_JOB_END_TIME" : "")});
}

int Supervisor::rank_of(int local_rank) const {
  // Without specs, this node cannot run the round (start_worker).
  return specs_ ? specs_->at(static_cast<std::size_t>(local_rank)).rank : local_rank;
}

void Supervisor::signal_groups(const SignalGroups& asked) {
  if (asked.which != GroupsOf::skipped_workers) {
    site_.tell(event::WorkersSignalled{asked.signo});
  }
  site_.runner().signal_groups(asked.signo, asked.which);
}

// Processes that were killed together with their worker are not listed by name.
void Supervisor::kill(bool names) {
  site_.tell(event::WorkersKilled{});
  if (!names_killed_) {
    static_cast<void>(site_.runner().take_killed());
  }
  names_killed_ = names;
}

void Supervisor::tell_killed() {
  const auto killed = site_.runner().take_killed();
  if (std::exchange(names_killed_, false)) {
    tell_leftovers({Fate::killed, killed});
  }
}

void Supervisor::tell_leftovers(event::LeftoversFound found) {
  if (!found.processes.empty()) {
    site_.tell(std::move(found));
  }
}

void Supervisor::tell_killed_early(const TellKilledEarly& killed) {
  std::vector<int> ranks;
  for (const int local_rank : killed.local_ranks) {
    ranks.push_back(rank_of(local_rank));
  }
  site_.tell(event::Message{LogLevel::warning,
                            fmt::format("second {}: killing {} before {} stopped; "
                                        "unsaved work is lost",
                                        signal_name(killed.signo),
                                        name_ranks(ranks),
                                        agreeing(ranks.size(), "it has", "they have"))});
}

void Supervisor::close_attempt(Duration timeout) {
  site_.close_attempt(timeout);
  close_failures(core_.closed_failures());
}

void Supervisor::close_failures(const std::vector<WorkerFailure>& failures) {
  for (const WorkerFailure& failure : failures) {
    // A worker that obeyed our stop request did not fail.
    if (!was_stopped_by_us(failure, core_.result().stop_signal)) {
      site_.tell(failure);
    }
    failures_.erase(failure.local_rank);  // its replacement may fail, too
  }
}

void Supervisor::tell_mended(const TellMended& mended) {
  event::Mended out;
  for (const int local_rank : mended.local_ranks) {
    out.ranks.push_back(rank_of(local_rank));
  }
  out.seconds = std::chrono::duration<double>(mended.time).count();
  site_.tell(std::move(out));
}

Result<pid_t> Supervisor::start_worker(int local_rank) {
  // The reason counts as a failure of the first worker on this node (round_source.hpp).
  MUSTER_RETURN_IF_ERROR(specs_);
  return site_.runner().spawn(specs_->at(static_cast<std::size_t>(local_rank)));
}

void Supervisor::spawn(int local_rank) {
  const auto pid = start_worker(local_rank);
  spawned_at_ = site_.now();
  if (pid) {
    site_.tell(event::WorkerStarted{local_rank, rank_of(local_rank), *pid});
    // Calls step() instead of handle(), so that the core gets the result before any queued event.
    step(WorkerSpawned{local_rank, *pid});
  } else {
    step(SpawnFailed{local_rank, pid.error()});
  }
}

}  // namespace muster
