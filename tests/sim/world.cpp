// SPDX-License-Identifier: Apache-2.0
#include "sim/world.hpp"

#include <fmt/core.h>

#include <csignal>
#include <cstdio>
#include <utility>

namespace muster::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kEventsMax = 100'000;

SupervisorSettings settings_of(const SwarmOptions& options) {
  SupervisorSettings settings;
  settings.max_restarts = options.max_restarts;
  settings.grace = options.grace;
  settings.signals_to_forward = {SIGTERM, SIGINT, SIGHUP};  // deliberately without SIGQUIT
  settings.signals_reach_all = options.step;
  settings.restart_by_rank = options.elastic_percent > 0;
  return settings;
}

}  // namespace

std::string SwarmOptions::describe() const {
  return fmt::format(
      "nproc={} max_restarts={} grace={} failing={}% hanging={}% deaf={}% unkillable={}% "
      "spawn_error={}% round_error={}% children={}% lost={}% library={}% signals={} "
      "signal_after_exit={}% "
      "regroups={} preempted={} "
      "guard_dies={} quick={} shared={} fences={} closed_by_others={} others_silent={} step={} "
      "elastic={}% spares={} spares_exiting={}%",
      nproc,
      max_restarts,
      muster::describe(grace),
      failing_percent,
      hanging_percent,
      deaf_percent,
      unkillable_percent,
      spawn_error_percent,
      round_error_percent,
      children_percent,
      lost_connection_percent,
      library_percent,
      signals,
      signal_after_exit_percent,
      regroups,
      preempted,
      guard_dies,
      quick,
      shared,
      fences,
      closed_by_others,
      others_silent,
      step,
      elastic_percent,
      spares,
      spare_faults.exiting_percent);
}

SwarmOptions swarm_options(Random& random) {
  const auto sometimes = [&](int percent_max) {
    return random.chance(60) ? 0 : static_cast<int>(random.between(1, percent_max));
  };
  SwarmOptions options;
  options.nproc =
      static_cast<int>(random.chance(20) ? random.between(9, 64) : random.between(1, 8));
  options.max_restarts = sometimes(6);
  options.grace = random.chance(10) ? Duration::zero() : milliseconds(random.between(1, 40'000));
  options.failing_percent = sometimes(60);
  options.hanging_percent = sometimes(30);
  options.deaf_percent = sometimes(40);
  options.unkillable_percent = random.chance(90) ? 0 : 20;
  options.spawn_error_percent = sometimes(10);
  options.round_error_percent = random.chance(90) ? 0 : 30;
  options.children_percent = sometimes(80);
  options.lost_connection_percent = random.chance(60) ? 0 : 50;
  options.library_percent = random.chance(50) ? 0 : static_cast<int>(random.between(1, 100));
  options.signals = sometimes(4);
  options.signal_after_exit_percent = random.chance(80) ? 0 : 20;
  options.regroups = random.chance(80) ? 0 : static_cast<int>(random.between(1, 3));
  options.guard_dies = random.chance(5);
  options.quick = random.chance(40);
  options.shared = random.chance(40);
  options.fences = random.chance(70) ? 0 : static_cast<int>(random.between(1, 3));
  options.closed_by_others = random.chance(30);
  options.others_silent = random.chance(20);
  options.step = random.chance(30);
  if (!options.shared && random.chance(50)) {
    options.elastic_percent = random.chance(80) ? 100 : 97;
    options.max_restarts = static_cast<int>(random.between(1, 12));
  }
  // A separate sequence, so that other seeds stay the same as before.
  Random apart = random;
  Random of_mends(apart.next() ^ 0x3e4d);
  if (options.shared && of_mends.chance(50)) {
    options.elastic_percent = of_mends.chance(80) ? 100 : 97;
    options.max_restarts = static_cast<int>(of_mends.between(1, 12));
  }
  Random of_preemption(apart.next() ^ 0x75);
  options.preempted = of_preemption.chance(25);
  Random of_spares(apart.next() ^ 0x5a7e);
  options.spare_faults = {of_spares.chance(50) ? 0 : 60, of_spares.next()};
  if (options.elastic_percent > 0 && of_spares.chance(50)) {
    options.spares = static_cast<int>(of_spares.between(1, 3));
  }
  return options;
}

World::World(std::uint64_t seed, bool trace)
    : seed_(seed),
      trace_(trace),
      random_(seed),
      options_(swarm_options(random_)),
      local_rounds_(*this, *this, {options_.max_restarts, kQuickFailures}) {
  runner_ = std::make_unique<SimRunner>(
      scheduler_,
      random_,
      *this,
      [this](const ProcessSpec& spec) { return script_for(spec); },
      options_.spare_faults);
  RoundSource* const rounds = options_.shared ? static_cast<RoundSource*>(this) : &local_rounds_;
  supervisor_ = std::make_unique<Supervisor>(*this, *rounds, settings_of(options_));
}

double World::wall_seconds() {
  return std::chrono::duration<double>(scheduler_.now().time_since_epoch()).count();
}

WorkerScript World::script_for(const ProcessSpec& spec) {
  if (runner_->is_unreaped(spec.local_rank)) {
    complain("a worker was started while its predecessor was running");
  }
  WorkerScript script;
  if (random_.chance(options_.spawn_error_percent)) {
    const bool missing = random_.chance(50);
    script.spawn_error = Error{missing ? Errc::not_found : Errc::system, "exec: simulated"};
    return script;
  }
  const Duration life = options_.quick ? milliseconds(random_.between(0, 300))
                                       : milliseconds(random_.between(0, 600'000));
  if (!random_.chance(options_.hanging_percent)) {
    script.run_for = life;
  }
  if (random_.chance(options_.failing_percent)) {
    const bool crash = random_.chance(50);
    const auto value = crash ? random_.between(1, 15) : random_.between(1, 255);
    script.end = ExitStatus{crash, static_cast<int>(options_.quick ? 1 : value)};
  }
  if (options_.elastic_percent > 0 && script.end.success() && script.run_for) {
    *script.run_for += options_.quick ? seconds(1) : seconds(1000);  // they finish together
  }
  script.ignores_term = random_.chance(options_.deaf_percent);
  script.term_delay = milliseconds(random_.between(0, random_.chance(20) ? 60'000 : 50));
  script.term_end = random_.chance(30) ? ExitStatus{false, static_cast<int>(random_.between(0, 3))}
                                       : ExitStatus{true, SIGTERM};
  if (random_.chance(options_.children_percent)) {
    script.group_children = static_cast<int>(random_.between(0, 3));
    script.daemons = static_cast<int>(random_.between(0, 2));
    script.helpers = static_cast<int>(random_.between(0, 2));
    script.shm_manager = random_.chance(20);
    if (random_.chance(50)) {
      script.daemon_runs_for = life + milliseconds(random_.between(0, 20'000));
    }
  }
  script.unkillable = random_.chance(options_.unkillable_percent);
  script.uses_library = random_.chance(options_.library_percent);
  script.freeing = milliseconds(random_.chance(70) ? 0 : random_.between(1, 45'000));
  return script;
}

Result<std::vector<ProcessSpec>> World::open_round(int attempt) {
  trace(fmt::format("open attempt={}", attempt));
  if (runner_->unreaped() != 0) {
    complain("a new attempt began while processes of the previous one were running");
  }
  if (stop_asked_) {
    complain("a new attempt began although the job was told to stop");
  }
  if (attempt != attempts_) {
    complain("attempts are not numbered in order");
  }
  ++attempts_;
  first_failed_.reset();
  if (random_.chance(options_.round_error_percent)) {
    return failure(Errc::system, "simulated: no port");
  }
  ++epoch_;
  resume_workers();
  return specs();
}

Result<MendToRun> World::open_mend(const std::vector<int>& local_ranks) {
  if (random_.chance(options_.round_error_percent)) {
    return failure(Errc::system, "simulated: no memory");
  }
  trace(fmt::format("mend of {} workers", local_ranks.size()));
  MendToRun mend{0, ++epoch_, {}};
  const auto all = specs();
  for (const int local_rank : local_ranks) {
    mend.specs.push_back(all.at(static_cast<std::size_t>(local_rank)));
    mend.specs.back().replacement = 1;
  }
  tell_loss();
  resume_workers();
  return mend;
}

// The libraries of all workers answer the news of a loss, except those of stopped workers.
void World::tell_loss() {
  if (options_.elastic_percent == 0) {
    return;
  }
  for (int local_rank = 0; local_rank < options_.nproc; ++local_rank) {
    if (is_stopped(local_rank)) {
      continue;
    }
    scheduler_.after(milliseconds(1), [this, local_rank, attempt = attempts_] {
      if (!finished_ && attempt == attempts_ && runner_->runs(local_rank)) {
        deliver(fmt::format("heard local_rank={}", local_rank), WorkerHeard{local_rank, {}});
      }
    });
  }
}

bool World::is_stopped(int local_rank) const {
  constexpr std::uint64_t kEvery = 8;
  return options_.elastic_percent < 100 &&
         (epoch_ + static_cast<std::uint64_t>(local_rank)) % kEvery == 0;
}

// Each worker starts to work in this epoch at some time, or never.
void World::resume_workers() {
  for (int local_rank = 0; local_rank < options_.nproc; ++local_rank) {
    if (!random_.chance(options_.elastic_percent)) {
      continue;
    }
    const Duration when = milliseconds(random_.between(0, options_.quick ? 50 : 3'000));
    if (is_stopped(local_rank)) {
      continue;
    }
    scheduler_.after(when, [this, local_rank, epoch = epoch_] {
      if (!finished_ && epoch == epoch_ && runner_->runs(local_rank)) {
        step_ += random_.chance(80) ? 1U : 0U;
        deliver(fmt::format("resumed local_rank={} epoch={}", local_rank, epoch),
                WorkerReady{local_rank, epoch});
      }
    });
  }
}

std::vector<ProcessSpec> World::specs() const {
  std::vector<ProcessSpec> out(static_cast<std::size_t>(options_.nproc));
  for (int i = 0; i < options_.nproc; ++i) {
    out[static_cast<std::size_t>(i)].local_rank = i;
    out[static_cast<std::size_t>(i)].rank = i;
  }
  return out;
}

void World::close_attempt(Duration /*timeout*/) {
  ++attempts_closed_;
  const auto& failures = supervisor_->core().closed_failures();
  const bool mends = options_.elastic_percent > 0;  // its failures are not part of the attempt
  if (!mends && !failures.empty() && first_failed_ &&
      failures.front().local_rank != *first_failed_ && !failures.front().spawn_error) {
    complain("the first failure of the attempt is not the one that was seen first");
  }
}

void World::add_evidence(WorkerFailure& failure) {
  says_lost_ = random_.chance(options_.lost_connection_percent);
  if (says_lost_) {
    failure.stderr_tail = "Connection reset by peer\n";
  }
}

void World::restarting(const event::RestartDecided& restart) {
  trace("warn " + restart.text);
}

void World::finished(const JobResult& result) {
  finished_ = true;
  report_.result = result;
}

void World::on_worker_exit(const WorkerExit& exit) {
  const bool failed = !supervisor_->core().is_success(exit.status);
  if (failed && !first_failed_) {
    first_failed_ = exit.local_rank;
  }
  trace(fmt::format("exit local_rank={} {}", exit.local_rank, exit.status.shell_code()));
  if (random_.chance(options_.signal_after_exit_percent)) {
    scheduler_.after(std::chrono::microseconds(random_.between(0, 6000)),
                     [this] { send_signal(SIGTERM); });
  }
  const SupervisorState before = supervisor_->core().state();
  if (failed && before != SupervisorState::stopping) {
    tell_loss();
  }
  supervisor_->on_worker_exit(exit);
  check();
  if (options_.shared && exit.status.success() && random_.chance(5)) {
    ++options_.regroups;
    others_say(std::chrono::microseconds(random_.between(0, 2000)), "regroup", RegroupNotice{"x"});
  }
}

void World::on_worker_dying(const WorkerExit& exit) {
  const SupervisorCore& core = supervisor_->core();
  const bool is_first =
      !first_failed_ && core.state() == SupervisorState::running && !core.is_success(exit.status);
  trace(fmt::format("dying local_rank={} {}", exit.local_rank, exit.status.shell_code()));
  says_lost_ = false;
  supervisor_->on_worker_dying(exit);
  if (is_first && !says_lost_) {
    first_failed_ = exit.local_rank;  // later ones, and lost connections, count when reaped
  }
  check();
}

void World::on_groups_empty() {
  trace("groups empty");
  supervisor_->on_groups_empty();
  check();
}

void World::on_nothing_left() {
  trace("nothing left");
  supervisor_->on_nothing_left();
  check();
}

void World::deliver(const std::string& name, SupervisorEvent event) {
  trace(name);
  supervisor_->handle(std::move(event));
  check();
}

// Sets one timer for the core's next deadline. A superseded timer still fires, as a real one may.
void World::arm() {
  const auto deadline = supervisor_->next_deadline();
  if (!deadline || armed_ == deadline) {
    return;
  }
  armed_ = deadline;
  scheduler_.at(*deadline, [this, when = *deadline] {
    if (armed_ == when) {
      armed_.reset();
    }
    if (!finished_) {
      deliver("tick", Tick{});
    }
  });
}

// A signal from a scheduler reaches all processes in any order, one from a user only the launcher.
void World::send_signal(int signo) {
  const bool stops = signo == SIGTERM || signo == SIGINT || signo == SIGHUP;
  if (!options_.step || !stops || random_.chance(30)) {
    take_signal(signo, false);
    return;
  }
  const auto apart = std::chrono::microseconds(random_.between(0, 900'000));
  const bool launcher_first = random_.chance(50);
  scheduler_.after(launcher_first ? Duration::zero() : apart,
                   [this, signo] { take_signal(signo, true); });
  scheduler_.after(launcher_first ? apart : Duration::zero(), [this, signo] {
    if (!finished_) {
      trace(fmt::format("signal {} to the workers", signo));
      runner_->signal_groups(signo, GroupsOf::all_workers);
    }
  });
}

void World::take_signal(int signo, bool reached_workers) {
  if (finished_) {
    return;
  }
  if (signo != SIGUSR1 && signo != SIGTSTP && signo != SIGCONT) {
    stop_asked_ = stop_asked_ ? stop_asked_ : scheduler_.now();
  }
  deliver(fmt::format("signal {}", signo), SignalReceived{signo, 1, reached_workers});
}

void World::plan_faults() {
  for (int i = 0; i < options_.signals; ++i) {
    static constexpr std::array kSignals{
        SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGTERM, SIGINT, SIGTSTP, SIGCONT};
    const int signo =
        kSignals.at(static_cast<std::size_t>(random_.between(0, kSignals.size() - 1)));
    const int repeats = random_.chance(30) ? 2 : 1;
    Duration when = milliseconds(random_.between(0, options_.quick ? 400 : 300'000));
    for (int j = 0; j < repeats; ++j) {
      scheduler_.after(when, [this, signo] { send_signal(signo); });
      when += milliseconds(random_.chance(50) ? 1 : random_.between(10, 5'000));
    }
  }
  for (int i = 0; i < options_.regroups; ++i) {
    scheduler_.after(milliseconds(random_.between(0, 200'000)), [this] {
      if (!finished_) {
        deliver("regroup", RegroupNotice{"simulated"});
      }
    });
  }
  if (options_.shared) {
    plan_shared_faults();
  }
  if (options_.preempted) {
    plan_preemption();
  }
  if (options_.guard_dies) {
    scheduler_.after(milliseconds(random_.between(0, 100'000)), [this] {
      if (!finished_) {
        deliver("link lost", LinkLost{});
      }
    });
  }
}

RunReport World::run() {
  trace(options_.describe());
  plan_faults();
  // Jobs whose workers hang forever are interrupted after a day.
  scheduler_.at(TimePoint{} + seconds(86'400), [this] { send_signal(SIGTERM); });
  if (options_.signals > 0 && random_.chance(10)) {
    stop_asked_ = scheduler_.now();
    deliver("signal before the start", SignalReceived{SIGTERM, 1});
  } else {
    deliver("start", Started{});
  }
  while (!finished_ && report_.problem.empty()) {
    if (!scheduler_.run_next()) {
      complain("no events are left, but the job has not ended");
    }
    if (++report_.events > kEventsMax) {
      complain("the job does not end");
    }
  }
  if (report_.problem.empty()) {
    check_end();
  }
  report_.virtual_time = scheduler_.now().time_since_epoch();
  return report_;
}

void World::check() {
  const SupervisorCore& core = supervisor_->core();
  core.check_invariants();
  trace("  " + core.describe());
  arm();
}

void World::trace(const std::string& line) {
  const double time = wall_seconds();
  for (const char c : fmt::format("{:.6f} {}", time, line)) {
    report_.trace_hash = (report_.trace_hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  if (trace_) {
    fmt::print("{:14.6f}  {}\n", time, line);
  }
}

void World::complain(const std::string& problem) {
  if (report_.problem.empty()) {
    report_.problem = problem;
  }
  trace("PROBLEM " + problem);
}

}  // namespace muster::sim
