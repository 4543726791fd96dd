// SPDX-License-Identifier: Apache-2.0
// RemoteAgent: the process that a remote shell starts on another host (`muster --remote-agent`). It
// reads frames from standard input, runs the launcher for this host as a child process, starts its
// share of further hosts, and writes frames to standard output. When its input is closed, the
// launching muster is gone, and it kills all its descendants. Called once, by main.
#pragma once

#include "base/environ.hpp"

#include <string>

namespace muster {

struct RemoteAgentSetup {
  Environ environ;
  std::string version;
  std::string own_path;  // path of this program
};

[[nodiscard]] int run_remote_agent(const RemoteAgentSetup& setup);

}  // namespace muster
