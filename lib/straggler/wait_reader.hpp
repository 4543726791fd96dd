// SPDX-License-Identifier: Apache-2.0
// Reads how long workers have waited, from their flight recorders. Bounded; called by the agent.
#pragma once

#include "straggler/slow.hpp"
#include "straggler/waits.hpp"

#include <map>
#include <vector>

#include <sys/types.h>

namespace muster::straggler {

// Per rank; further ones are not read.
inline constexpr std::size_t kGroupsMax = 64;

// `recorders`: descriptors of their files. `ranks`: by the pids to look for. Leaves steps to the
// caller.
[[nodiscard]] std::vector<RankWaits> read_waits(const std::vector<int>& recorders,
                                                const std::map<pid_t, int>& ranks);

// Refines the cost of these ranks from the times of single operations. Read once, when reported.
void refine(const std::vector<int>& recorders, const std::map<pid_t, int>& ranks, Slow& slow);

}  // namespace muster::straggler
