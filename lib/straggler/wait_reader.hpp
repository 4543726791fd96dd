// SPDX-License-Identifier: Apache-2.0
// Reads from the flight recorders how long workers have waited. The amount of work is bounded.
// Called by the agent.
#pragma once

#include "straggler/slow.hpp"
#include "straggler/waits.hpp"

#include <map>
#include <vector>

#include <sys/types.h>

namespace muster::straggler {

// Limit per rank; further groups are not read.
inline constexpr std::size_t kGroupsMax = 64;

// `recorders` are descriptors of the recorder files. `ranks` maps the pids of interest to ranks.
// The caller fills in the steps.
[[nodiscard]] std::vector<RankWaits> read_waits(const std::vector<int>& recorders,
                                                const std::map<pid_t, int>& ranks);

// Corrects the cost of these ranks using the times of individual operations. Called once, when the
// ranks are reported.
void refine(const std::vector<int>& recorders, const std::map<pid_t, int>& ranks, Slow& slow);

}  // namespace muster::straggler
