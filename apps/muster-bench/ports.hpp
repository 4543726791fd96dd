// SPDX-License-Identifier: Apache-2.0
// Many concurrent jobs take a port from one small range and listen on it shortly afterwards. Counts
// how often two jobs have the same port. Called by the tool `ports`. Stateless functions.
#pragma once

#include "base/error.hpp"
#include "io/port_range.hpp"

#include <cstdint>

namespace muster::bench {

struct PortsPlan {
  std::uint64_t jobs = 100'000;
  int at_once = 64;     // concurrent processes; each runs its jobs one after another
  PortRange range{};    // must have more ports than concurrent jobs
  bool probed = false;  // as most launchers do: find a free port, release it, listen later
};

struct PortsFound {
  std::uint64_t collisions = 0;  // ports that another job had at the same time
  std::uint64_t lost = 0;        // ports on which the job could not listen
  double microseconds = 0;       // elapsed time per job, over all processes
};

// Error: system, also if no port was available.
[[nodiscard]] Result<PortsFound> count_collisions(const PortsPlan& plan);

}  // namespace muster::bench
