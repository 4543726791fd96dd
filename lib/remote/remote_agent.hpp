// SPDX-License-Identifier: Apache-2.0
// RemoteAgent: the process that a remote shell starts on another host (`muster --remote-agent`). It
// reads frames from standard input and writes frames to standard output. It runs this host's
// launcher as a child process and starts agents on its share of the remaining hosts. If its input
// is closed, the muster process that started the job has died, so the agent kills all of its own
// descendants. Called once, by main.
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
