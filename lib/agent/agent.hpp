// SPDX-License-Identifier: Apache-2.0
// The agent: runs the job's workers on this node, from the first store to the report. The shell
// around the supervisor: one loop, one timer, the link to the guard, a store for each round, the
// real processes. Called once, by main, in the process that run_guarded made.
#pragma once

#include "base/environ.hpp"
#include "base/fd.hpp"
#include "config/launch_config.hpp"

#include <string>

namespace muster {

struct AgentSetup {
  LaunchConfig config;
  Environ environ;
  std::string hostname;
  std::string random;  // letters and digits for the run folder's name
  bool stderr_is_terminal = false;
};

// Returns the launcher's exit code; everything that it has to say was said.
[[nodiscard]] int run_agent(const AgentSetup& setup, UniqueFd link);

}  // namespace muster
