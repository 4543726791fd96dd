// SPDX-License-Identifier: Apache-2.0
// RemoteAgent: what a remote shell starts on another machine (`muster --remote-agent`). It reads
// what to do from its standard input, runs the launcher of this machine below itself, starts its
// share of further machines, and answers with frames on its standard output. When its input ends,
// whoever asked for the job is gone, and everything below it is killed. Called once, by main.
#pragma once

#include "base/environ.hpp"

#include <string>

namespace muster {

struct RemoteAgentSetup {
  Environ environ;
  std::string version;
  std::string own_path;  // by which this program was started
};

[[nodiscard]] int run_remote_agent(const RemoteAgentSetup& setup);

}  // namespace muster
