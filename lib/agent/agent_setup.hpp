// SPDX-License-Identifier: Apache-2.0
// AgentSetup: what the agent gets from main, and hands to its parts by reference. Value; any
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
  std::string version;  // of muster: all nodes of a job have the same
  std::string random;   // 32 hexadecimal digits, for the run folder's name and this node's id
  bool stderr_is_terminal = false;
  bool stdin_is_terminal = false;
  bool stderr_is_public = false;  // a file that other users can read
  bool stdout_is_torn = false;    // as in PlanContext,
  bool one_sink = false;          // and so this
  std::size_t stderr_columns = 80;
};

}  // namespace muster
