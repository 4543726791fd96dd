// SPDX-License-Identifier: Apache-2.0
// The other nodes of a job, as seen by one of them: they form rounds, count restarts, cut it off,
// end the job, or do not respond.
#include "sim/world.hpp"

#include <fmt/core.h>

#include <utility>

namespace muster::sim {

using std::chrono::milliseconds;

void World::plan_shared_faults() {
  for (int i = 0; i < options_.fences; ++i) {
    others_say(milliseconds(random_.between(0, options_.quick ? 400 : 200'000)),
               "fenced",
               Fenced{"simulated"});
  }
  if (options_.closed_by_others) {
    scheduler_.after(milliseconds(random_.between(0, options_.quick ? 400 : 400'000)), [this] {
      close_job(random_.chance(70) ? Outcome::failed : Outcome::not_started);
    });
  }
}

// Sends nothing to a node that has exited, or after the job is closed.
void World::others_say(Duration delay, const std::string& name, const SupervisorEvent& event) {
  scheduler_.after(delay, [this, name, event] {
    if (!finished_ && !closed_) {
      deliver(name, event);
    }
  });
}

void World::close_job(Outcome outcome) {
  if (finished_ || closed_) {
    return;
  }
  closed_ = true;
  RoundClosed closed;
  closed.outcome = outcome;
  if (outcome == Outcome::failed) {
    closed.close = Close{};
    closed.close->exit_code = 7;
  }
  if (outcome == Outcome::not_started) {
    closed.error = Error{Errc::unreachable, "simulated"};
  }
  deliver(fmt::format("closed outcome={}", static_cast<int>(outcome)), closed);
}

void World::nothing_runs(const std::string& claim) {
  trace(claim);
  if (runner_->unreaped() != 0) {
    complain("the other nodes were told that no process runs, but one does");
  }
  if (closed_) {
    complain("a message was sent after the job was closed");
  }
}

void World::await_round(int attempt) {
  trace(fmt::format("await attempt={}", attempt));
  if (attempt != attempts_) {
    complain("attempts are not numbered in order");
  }
  if (leaving_) {
    complain("a leaving node waits for a round");
  }
  awaiting_ = true;
  scheduler_.after(milliseconds(random_.between(0, 2'000)), [this] { run_shared_round(); });
}

void World::run_shared_round() {
  const bool over = failures_reported_ > options_.max_restarts;
  if (finished_ || closed_ || leaving_ || over || !std::exchange(awaiting_, false)) {
    return;
  }
  if (runner_->unreaped() != 0) {
    complain("a new attempt began while processes of the previous one were running");
  }
  ++attempts_;
  first_failed_.reset();
  trace("round formed");
  RoundToRun round{options_.nproc, 0, specs(), static_cast<int>(random_.between(0, 2))};
  if (random_.chance(options_.round_error_percent)) {
    round.specs = failure(Errc::system, "simulated: no folder");
  }
  ++epoch_;
  resume_workers();
  supervisor_->run_round(std::move(round));
  check();
}

// The other nodes grant it, refuse it, or form another round.
void World::ask_mend(const AskMend& ask) {
  trace(fmt::format("ask mend={} of {} workers", ask.number, ask.local_ranks.size()));
  const Duration delay = milliseconds(random_.between(0, options_.quick ? 10 : 2'000));
  if (random_.chance(5)) {
    ++options_.regroups;
    others_say(delay, "regroup", RegroupNotice{"simulated"});
  } else if (random_.chance(10)) {
    const int attempt = attempts_;
    scheduler_.after(delay, [this, attempt, number = ask.number] {
      if (!finished_ && !closed_ && attempt == attempts_ && !awaiting_) {
        deliver("mend refused", MendRefused{number, random_.chance(50) ? "simulated" : ""});
      }
    });
  } else if (++failures_reported_ <= options_.max_restarts) {
    const int attempt = attempts_;
    scheduler_.after(delay, [this, attempt, number = ask.number, ranks = ask.local_ranks] {
      run_shared_mend(number, ranks, attempt);
    });
  } else {
    scheduler_.after(delay, [this] { close_job(Outcome::failed); });
  }
}

// Without `local_ranks`, workers on other nodes are replaced.
void World::run_shared_mend(int number, const std::vector<int>& local_ranks, int attempt) {
  if (finished_ || closed_ || awaiting_ || attempt != attempts_) {
    return;
  }
  trace(fmt::format("mend={} of {} workers here", number, local_ranks.size()));
  MendToRun mend{number, ++epoch_, {}};
  const auto all = specs();
  for (const int local_rank : local_ranks) {
    mend.specs.push_back(all.at(static_cast<std::size_t>(local_rank)));
    mend.specs.back().replacement = 1;
  }
  tell_loss();
  resume_workers();
  supervisor_->run_mend(std::move(mend));
  check();
}

// Only now can the other nodes replace workers.
void World::tell_ready(std::uint64_t epoch) {
  trace(fmt::format("ready epoch={}", epoch));
  if (epoch != epoch_) {
    complain("the node is ready in an epoch that is over");
  }
  if (random_.chance(70)) {
    const Duration late = options_.quick ? milliseconds(1'000) : milliseconds(1'000'000);
    const Duration base = random_.chance(20) ? late : Duration{};  // while workers finish
    scheduler_.after(base + milliseconds(random_.between(0, options_.quick ? 200 : 200'000)),
                     [this, attempt = attempts_] {
                       if (++failures_reported_ <= options_.max_restarts) {
                         run_shared_mend(0, {}, attempt);
                       }
                     });
  }
}

void World::end_mend(const std::string& reason) {
  trace("end mend: " + reason);
  ++options_.regroups;
  others_say(milliseconds(random_.between(0, 500)), "regroup", RegroupNotice{reason});
}

void World::tell_gone() {
  nothing_runs("gone");
  if (leaving_ && !options_.others_silent) {
    scheduler_.after(milliseconds(random_.between(0, 1'500)),
                     [this] { close_job(Outcome::interrupted); });
  }
}

void World::report_failure(const WorkerFailure& failure) {
  trace(fmt::format("report local_rank={} after_stop={}", failure.local_rank, failure.after_stop));
  if (!failure.after_stop && ++failures_reported_ > options_.max_restarts) {
    scheduler_.after(milliseconds(random_.between(0, 200)), [this] { close_job(Outcome::failed); });
  }
}

void World::report_finished() {
  nothing_runs("finished");
  if (random_.chance(10)) {
    ++options_.regroups;
    others_say(milliseconds(random_.between(0, 5'000)), "regroup", RegroupNotice{"simulated"});
    return;
  }
  scheduler_.after(milliseconds(random_.between(0, 5'000)), [this] {
    if (supervisor_->core().state() == SupervisorState::waiting && !leaving_) {
      close_job(Outcome::succeeded);
    }
  });
}

void World::leave_round(const LeaveRound& asked) {
  trace("leave: " + asked.reason);
  if (std::exchange(leaving_, true)) {
    complain("a node left twice");
  }
}

}  // namespace muster::sim
