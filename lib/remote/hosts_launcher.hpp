// SPDX-License-Identifier: Apache-2.0
// HostsLauncher: what `muster --hosts` does in the agent's place: starts the remote shells, shows
// what comes back, passes signals on. The shell around HostsCore. Called once, by main, in the
// process that run_guarded made.
#pragma once

#include "base/environ.hpp"
#include "base/fd.hpp"
#include "config/hosts_request.hpp"

#include <string>

namespace muster {

struct HostsSetup {
  HostsRequest request;
  Environ environ;      // for the remote shells themselves
  std::string version;  // of muster: all machines have the same
  std::string token{};  // for the agents; empty: none
};

// Returns the launcher's exit code; everything that there is to say was said.
[[nodiscard]] int run_hosts(const HostsSetup& setup, UniqueFd link);

}  // namespace muster
