// SPDX-License-Identifier: Apache-2.0
// A run in which some machines lose power and return, all with their records. A round of all nodes
// must run again within a lease. Pure function of the seed.
#pragma once

#include "sim/nodes/nodes_run.hpp"
#include "sim/random.hpp"

#include <cstdint>

namespace muster::sim {

[[nodiscard]] NodesReport run_reboots(std::uint32_t nodes, Random& random, Trace& trace);

}  // namespace muster::sim
