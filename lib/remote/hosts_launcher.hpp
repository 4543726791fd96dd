// SPDX-License-Identifier: Apache-2.0
// HostsLauncher: runs in place of the agent for `muster --hosts`. Starts the remote shells, shows
// their output and forwards signals. The I/O shell around HostsCore. Called once, by main, in the
// process created by run_guarded.
#pragma once

#include "base/environ.hpp"
#include "base/fd.hpp"
#include "config/hosts_request.hpp"

#include <string>

namespace muster {

struct HostsSetup {
  HostsRequest request;
  Environ environ;      // for the remote shells
  std::string version;  // of muster; must be the same on all hosts
  std::string token{};  // for the agents; empty: none
};

// Returns the launcher's exit code, after all messages have been printed.
[[nodiscard]] int run_hosts(const HostsSetup& setup, UniqueFd link);

}  // namespace muster
