// SPDX-License-Identifier: Apache-2.0
// Reads from /proc what the processes of a rank do. A process may end or change while it is read:
// what is not there any more is left out. Shell; blocks for as long as the kernel takes to answer,
// which is no time for /proc. Any thread.
#pragma once

#include "hang/evidence.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace muster::hang {

// Of one rank; more are left out.
inline constexpr std::size_t kProcessesMax = 64;

// What the processes below and with `root` have used since their start.
struct Used {
  double cpu_seconds = 0;  // and that for which they waited for a processor
  std::uint64_t io_bytes = 0;
};

[[nodiscard]] Used used_by(pid_t root);

// The process and all below it, the root first; its children before theirs.
[[nodiscard]] std::vector<ProcessFacts> read_processes(pid_t root);

struct ThreadUse {
  double cpu = 0;  // seconds so far
  char state = '?';
};

// Of each thread, by tid.
[[nodiscard]] std::map<pid_t, ThreadUse> thread_use(const std::vector<ProcessFacts>& processes);

// Fills in the CPU time of each thread since `before`, so many seconds ago.
void add_cpu(std::vector<RankEvidence>& ranks,
             const std::map<pid_t, ThreadUse>& before,
             double seconds);

// Fills in who is at the other side of the pipes that threads wait for.
void find_other_sides(std::vector<RankEvidence>& ranks);

}  // namespace muster::hang
