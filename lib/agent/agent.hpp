// SPDX-License-Identifier: Apache-2.0
// The agent: runs the job's workers on this node, from opening the first store to writing the
// report. It contains the supervisor, an event loop, a timer, the link to the guard, a store for
// each round, the runner of real processes, and, in multi-node jobs, a SharedRounds. Called once,
// by main, in the process that run_guarded created.
#pragma once

#include "agent/agent_setup.hpp"
#include "agent/rounds/shared_start.hpp"
#include "process/guard/guard.hpp"

#include <optional>

namespace muster {

struct AgentEnd {
  int exit_code = 0;
  bool rejoins = false;  // a spare took the place of this node: start another agent
};

// Returns the launcher's exit code after all messages have been printed. `shared` must be set if
// and only if many_nodes(setup.config) is true.
[[nodiscard]] AgentEnd run_agent(const AgentSetup& setup,
                                 GuardLink link,
                                 std::optional<SharedWithGuard> shared = std::nullopt);

}  // namespace muster
