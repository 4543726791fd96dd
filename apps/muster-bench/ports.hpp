// SPDX-License-Identifier: Apache-2.0
// Many jobs that each take a port at once from one small range, and serve on it a moment later: how
// often two have the same port. Called by the tool `ports`. Functions over values.
#pragma once

#include "base/error.hpp"
#include "io/port_range.hpp"

#include <cstdint>

namespace muster::bench {

struct PortsPlan {
  std::uint64_t jobs = 100'000;
  int at_once = 64;     // processes; each is one job after the other
  PortRange range{};    // of more ports than jobs at once
  bool probed = false;  // find a free port, let go of it, serve on it: what launchers usually do
};

struct PortsFound {
  std::uint64_t collisions = 0;  // ports that another job had at the same time
  std::uint64_t lost = 0;        // ports on which the job could not serve
  double microseconds = 0;       // of wall time for each job, all processes together
};

// Error: system; or no port was to be had.
[[nodiscard]] Result<PortsFound> count_collisions(const PortsPlan& plan);

}  // namespace muster::bench
