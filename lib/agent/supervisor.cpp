// SPDX-License-Identifier: Apache-2.0
#include "agent/supervisor.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace muster {

Supervisor::Supervisor(SupervisorSite& site, SupervisorSettings settings)
    : site_(site), core_(std::move(settings)) {}

void Supervisor::on_worker_exit(const WorkerExit& exit) {
  handle(WorkerExited{exit, site_.wall_seconds()});
}

void Supervisor::on_worker_dying(const WorkerExit& exit) {
  handle(WorkerDying{exit, site_.wall_seconds()});
}

void Supervisor::on_groups_empty() {
  handle(GroupsEmpty{});
}

void Supervisor::on_nothing_left() {
  handle(NothingLeft{});
}

// Effects that have an immediate answer step the core again before the next effect; observers are
// never called from inside the runner, and the rendezvous' words wait, so nothing else can come in
// between.
void Supervisor::handle(const SupervisorEvent& event) {
  events_.push_back(event);
  if (handling_) {
    return;
  }
  handling_ = true;
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
  handling_ = false;
}

void Supervisor::run_round(RoundToRun round) {
  specs_ = std::move(round.specs);
  handle(RoundFormed{round.nproc, round.rank_first});
}

void Supervisor::step(const SupervisorEvent& event) {
  std::vector<SupervisorEffect> out;
  core_.step(site_.now(), event, out);
  effects_.insert(effects_.end(), out.begin(), out.end());
}

void Supervisor::perform(const SupervisorEffect& effect) {
  std::visit(
      [this]<class Effect>(const Effect& asked) {
        if constexpr (std::is_same_v<Effect, OpenRound>) {
          open_round(asked);
        } else if constexpr (std::is_same_v<Effect, AwaitRound>) {
          site_.await_round(asked.attempt);
        } else if constexpr (std::is_same_v<Effect, TellGone>) {
          site_.tell_gone();
        } else if constexpr (std::is_same_v<Effect, ReportFailure>) {
          site_.report_failure(asked.failure, asked.run_time);
        } else if constexpr (std::is_same_v<Effect, ReportFinished>) {
          site_.report_finished();
        } else if constexpr (std::is_same_v<Effect, LeaveRound>) {
          site_.leave_round(asked.reason);
        } else if constexpr (std::is_same_v<Effect, SpawnWorker>) {
          spawn(asked.local_rank);
        } else if constexpr (std::is_same_v<Effect, SignalGroups>) {
          site_.runner().signal_groups(asked.signo);
        } else if constexpr (std::is_same_v<Effect, SignalWorkers>) {
          site_.runner().signal_workers(asked.signo);
        } else if constexpr (std::is_same_v<Effect, KillEverything>) {
          site_.runner().kill_everything();
        } else if constexpr (std::is_same_v<Effect, NameSurvivors>) {
          survivors_ = site_.runner().survivors();
        } else if constexpr (std::is_same_v<Effect, CloseAttempt>) {
          close_attempt(asked.patience);
        } else if constexpr (std::is_same_v<Effect, Warn>) {
          site_.warn(asked.words);
        } else {
          static_assert(std::is_same_v<Effect, Finish>);
          finish();
        }
      },
      effect);
}

void Supervisor::open_round(const OpenRound& effect) {
  specs_ = site_.open_round(effect.attempt, effect.restarts);
  if (!specs_) {
    step(RoundFailed{specs_.error()});
    return;
  }
  const int rank_first = specs_->empty() ? 0 : specs_->front().rank;
  step(RoundFormed{static_cast<int>(specs_->size()), rank_first});
}

Result<pid_t> Supervisor::start_worker(int local_rank) {
  if (!specs_) {
    return std::unexpected(specs_.error());
  }
  return site_.runner().spawn(specs_->at(static_cast<std::size_t>(local_rank)));
}

void Supervisor::spawn(int local_rank) {
  const auto pid = start_worker(local_rank);
  if (pid) {
    step(WorkerSpawned{local_rank, *pid});
  } else {
    step(SpawnFailed{local_rank, pid.error()});
  }
}

// Where a new attempt follows, the core is in it already and has no failures; nobody reports those
// of an attempt that was restarted.
void Supervisor::close_attempt(Duration patience) {
  failures_ = core_.result().failures;
  site_.close_attempt(failures_, patience);
}

void Supervisor::finish() {
  JobResult result = core_.result();
  result.failures = std::exchange(failures_, {});
  // The core knows the workers that were not reaped; the runner knows more about those that run.
  for (const Survivor& worker : core_.result().survivors) {
    const auto same = [&](const Survivor& left) { return left.pid == worker.pid; };
    if (std::ranges::none_of(survivors_, same)) {
      survivors_.push_back(worker);
    }
  }
  result.survivors = std::exchange(survivors_, {});
  site_.finished(result);
}

}  // namespace muster
