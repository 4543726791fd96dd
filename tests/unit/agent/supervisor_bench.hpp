// SPDX-License-Identifier: Apache-2.0
// Bench: a SupervisorCore with a clock, for its tests. Checks the core's invariants after every
// step. In single-node jobs LocalRounds answers the core's reports; the test provides the next
// round.
#pragma once

#include "agent/rounds/local_rounds.hpp"
#include "agent/supervisor/supervisor_core.hpp"
#include "support/catch.hpp"

#include <csignal>
#include <deque>
#include <memory>

namespace muster::testing {

using State = SupervisorState;

struct BenchSettings : SupervisorSettings {
  bool shared = false;  // other nodes, played by the test, decide on rounds
};

inline BenchSettings settings(int max_restarts = 0, Duration grace = std::chrono::seconds(30)) {
  BenchSettings chosen;
  chosen.max_restarts = max_restarts;
  chosen.grace = grace;
  chosen.signals_to_forward = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  return chosen;
}

inline BenchSettings shared_settings() {
  BenchSettings chosen = settings();
  chosen.shared = true;
  return chosen;
}

// --restart=rank
inline BenchSettings elastic_settings(int max_restarts = 10) {
  BenchSettings chosen = settings(max_restarts);
  chosen.restart_by_rank = true;
  return chosen;
}

// LocalRounds that records its answers and warnings.
class BenchRounds final : public RoundUser, public LocalRoundsSite {
 public:
  LocalRounds rounds;
  std::deque<SupervisorEvent> answers;
  std::vector<std::string> warnings;
  std::uint64_t epoch = 1;

  explicit BenchRounds(int max_restarts) : rounds(*this, *this, RestartLimits{max_restarts, 3}) {}

  void run_round(RoundToRun /*round*/) override {}

  void run_mend(MendToRun mend) override {
    answers.emplace_back(MendFormed{mend.number, mend.epoch, mend.last});
  }

  void handle(const SupervisorEvent& event) override { answers.push_back(event); }

  int starts() const override { return 0; }

  Result<std::vector<ProcessSpec>> open_round(int /*attempt*/) override {
    return std::vector<ProcessSpec>{};
  }

  void close_round() override {}

  Result<MendToRun> open_mend(const std::vector<int>& local_ranks) override {
    MendToRun mend{0, ++epoch, {}};
    for (const int local_rank : local_ranks) {
      mend.specs.emplace_back();
      mend.specs.back().local_rank = mend.specs.back().rank = local_rank;
    }
    return mend;
  }

  void restarting(const event::RestartDecided& restart) override {
    warnings.push_back(restart.text);
  }

  void take(const SupervisorEffect& effect) {
    if (const auto* await = std::get_if<AwaitRound>(&effect)) {
      rounds.await_round(await->attempt);
    } else if (const auto* report = std::get_if<WorkerFailure>(&effect)) {
      rounds.report_failure(*report);
    } else if (const auto* ask = std::get_if<AskMend>(&effect)) {
      rounds.ask_mend(*ask);
    } else if (std::holds_alternative<ReportSuccess>(effect)) {
      rounds.report_success();
    } else if (std::holds_alternative<ReportFinished>(effect)) {
      rounds.report_finished();
    } else if (const auto* leave = std::get_if<LeaveRound>(&effect)) {
      rounds.leave_round(*leave);
    }
  }
};

inline WorkerFailure failed(const WorkerExit& exit, double wall_seconds = 999) {
  WorkerFailure failure;
  static_cast<WorkerExit&>(failure) = exit;
  failure.wall_seconds = wall_seconds;
  return failure;
}

inline WorkerExited exited(const WorkerExit& exit, bool lost_connection = false) {
  WorkerExited out{exit.local_rank, std::nullopt};
  if (!exit.status.success()) {
    out.failure = failed(exit, 1000);
    out.failure->lost_connection = lost_connection;
  }
  return out;
}

// A core with a clock and the effects of the last step, including those of the answers.
struct Bench {
  SupervisorCore core;
  TimePoint now{};
  std::vector<SupervisorEffect> effects;
  int nproc = 2;
  int others = 0;                      // workers on other nodes
  std::unique_ptr<BenchRounds> local;  // null if rounds are shared

  explicit Bench(const BenchSettings& chosen = settings())
      : core(chosen),
        local(chosen.shared ? nullptr : std::make_unique<BenchRounds>(chosen.max_restarts)) {}

  void step(const SupervisorEvent& event) {
    effects.clear();
    std::deque<SupervisorEvent> events{event};
    for (; !events.empty(); events.pop_front()) {
      const std::size_t before = effects.size();
      core.step(now, events.front(), effects);
      core.check_invariants();
      for (std::size_t i = before; local && i < effects.size(); ++i) {
        local->take(effects[i]);
      }
      for (; local && !local->answers.empty(); local->answers.pop_front()) {
        events.push_back(local->answers.front());
      }
    }
  }

  void wait(Duration time) {
    now += time;
    step(Tick{});
  }

  // Advances to the time at which leftovers are killed; none of them exits before.
  void wait_for_kill() {
    REQUIRE(core.state() == State::clearing);
    while (core.state() == State::clearing) {
      now = *core.next_deadline();
      step(Tick{});
    }
  }

  void spawn_all() {
    step(RoundFormed{nproc, 0, others});
    for (int i = 0; i < nproc; ++i) {
      REQUIRE(asked<SpawnWorker>());
      step(WorkerSpawned{i, 100 + i});
    }
  }

  void start() {
    step(Started{});
    spawn_all();
  }

  void exit(int local_rank, int code) {
    step(exited(WorkerExit{local_rank, 100 + local_rank, {false, code}, false, {}}));
  }

  void die(int local_rank, int signo) {
    step(exited(WorkerExit{local_rank, 100 + local_rank, {true, signo}, false, {}}));
  }

  // Starts dying; die() completes its death.
  void begin_to_die(int local_rank, int signo) {
    step(failed(WorkerExit{local_rank, 100 + local_rank, {true, signo}, false, {}}));
  }

  template <class Effect>
  const Effect* asked() const {
    for (const auto& effect : effects) {
      if (const auto* found = std::get_if<Effect>(&effect)) {
        return found;
      }
    }
    return nullptr;
  }
};

}  // namespace muster::testing
