// SPDX-License-Identifier: Apache-2.0
// AgentSetup: what main passes to the agent. The agent's parts hold it by reference. Value; any
// thread.
#pragma once

#include "base/environ.hpp"
#include "config/launch_config.hpp"

#include <cstddef>
#include <string>

namespace muster {

struct AgentSetup {
  LaunchConfig config;
  Environ environ;
  std::string hostname;
  std::string version;   // muster's version, which must be the same on all nodes of a job
  std::string random;    // 32 hexadecimal digits, for the run directory's name and this node's id
  bool rejoins = false;  // a spare took the place of this node's last agent
  bool stderr_is_terminal = false;
  bool stdin_is_terminal = false;
  bool stderr_is_public = false;  // stderr is a file that other users can read
  bool stdout_is_torn = false;    // see PlanContext
  bool one_sink = false;          // see PlanContext
  std::size_t stderr_columns = 80;
};

}  // namespace muster
