// SPDX-License-Identifier: Apache-2.0
// Bench: a SupervisorCore with a clock, for its tests; every step checks the core's invariants.
#pragma once

#include "agent/supervisor_core.hpp"
#include "support/catch.hpp"

#include <csignal>

namespace muster::testing {

using State = SupervisorState;

inline SupervisorSettings settings(int max_restarts = 0,
                                   Duration grace = std::chrono::seconds(30)) {
  SupervisorSettings chosen;
  chosen.max_restarts = max_restarts;
  chosen.grace = grace;
  chosen.signals_to_forward = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  return chosen;
}

inline SupervisorSettings shared_settings() {
  SupervisorSettings chosen = settings();
  chosen.shared_round = true;
  return chosen;
}

// A core with a clock and the effects of the last step, the immediate ones answered.
struct Bench {
  SupervisorCore core;
  TimePoint now{};
  std::vector<SupervisorEffect> effects;
  int nproc = 2;

  explicit Bench(SupervisorSettings chosen = settings()) : core(std::move(chosen)) {}

  void step(const SupervisorEvent& event) {
    effects.clear();
    core.step(now, event, effects);
    core.check_invariants();
  }

  void spawn_all() {
    step(RoundFormed{nproc, 0});
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
    step(WorkerExited{WorkerExit{local_rank, 100 + local_rank, {false, code}, false, {}}, 1000});
  }

  void die(int local_rank, int signo) {
    step(WorkerExited{WorkerExit{local_rank, 100 + local_rank, {true, signo}, false, {}}, 1000});
  }

  // Begins to; its end follows with die().
  void begin_to_die(int local_rank, int signo) {
    step(WorkerDying{WorkerExit{local_rank, 100 + local_rank, {true, signo}, false, {}}, 999});
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
