// SPDX-License-Identifier: Apache-2.0
// HostsLauncher: runs in place of the agent for `muster --hosts`. Starts the remote shells, prints
// their output and forwards signals. Performs the I/O for HostsCore. Called once, by main, in the
// process that run_guarded creates.
#pragma once

#include "base/environ.hpp"
#include "config/hosts_request.hpp"
#include "process/guard/guard.hpp"

#include <string>

namespace muster {

struct HostsSetup {
  HostsRequest request;
  Environ environ;      // environment of the remote shells
  std::string version;  // muster version; must be the same on all hosts
  std::string token{};  // job token for the agents, or empty
};

// Returns the launcher's exit code after all messages have been printed.
[[nodiscard]] int run_hosts(const HostsSetup& setup, GuardLink link);

}  // namespace muster
