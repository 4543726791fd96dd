// SPDX-License-Identifier: Apache-2.0
// Reads how long workers have waited from their flight recorders. Bounded; called by the agent.
#pragma once

#include "straggler/slow.hpp"
#include "straggler/waits.hpp"

#include <map>
#include <vector>

#include <sys/types.h>

namespace muster::straggler {

// Of one rank; others are not looked at.
inline constexpr std::size_t kGroupsMax = 64;

// `recorders`: descriptors of their files. `ranks`: by the pids of those who are asked about. Steps
// are left to the caller.
[[nodiscard]] std::vector<RankWaits> read_waits(const std::vector<int>& recorders,
                                                const std::map<pid_t, int>& ranks);

// What these ranks cost, from when they called single operations: read once, when they are named.
void refine(const std::vector<int>& recorders, const std::map<pid_t, int>& ranks, Slow& slow);

}  // namespace muster::straggler
