// SPDX-License-Identifier: Apache-2.0
// resolve: from what was typed to what will be done. Command line before MUSTER_* before PET_*
// before config file before default, then all rules that span settings. Called once by main, pure
// but for the questions to `machine`, each asked only if needed.
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
  std::vector<std::string> warnings;  // tolerated; main logs each once
  Environ environ;                    // for the workers: what --accelerate-config adds is in it
  std::vector<std::string> command;   // main runs this in place of a job; usually empty
  std::optional<HostsRequest> hosts;  // --hosts: main starts agents there, and none here
};

// Errors: usage (exit 2), not_found (the program does not exist: 127), not_possible (126).
[[nodiscard]] Result<Resolved> resolve(const CommandLine& line,
                                       const Environ& environ,
                                       const Machine& machine);

}  // namespace muster
