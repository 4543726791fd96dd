// SPDX-License-Identifier: Apache-2.0
// resolve: turns the command line into the final configuration. Sources in order of precedence:
// command line, MUSTER_*, PET_*, config file, default. Then it applies all rules that involve
// several settings. Called once by main. Pure except for queries to `machine`, which are made only
// if needed.
#pragma once

#include "base/environ.hpp"
#include "base/error.hpp"
#include "config/hosts_request.hpp"
#include "config/launch_config.hpp"
#include "config/options/command_line.hpp"
#include "machine/machine.hpp"

#include <optional>
#include <string>
#include <vector>

namespace muster {

struct Resolved {
  LaunchConfig config;
  std::vector<std::string> warnings;  // main logs each of them once
  Environ environ;  // for the workers; includes variables added by --accelerate-config
  std::vector<std::string> command;   // if not empty, main runs this instead of a job
  std::optional<HostsRequest> hosts;  // --hosts: main only starts the agents on these hosts
};

// Errors: usage (exit code 2), not_found (the program does not exist, 127), not_possible (126).
[[nodiscard]] Result<Resolved> resolve(const CommandLine& line,
                                       const Environ& environ,
                                       const Machine& machine);

}  // namespace muster
