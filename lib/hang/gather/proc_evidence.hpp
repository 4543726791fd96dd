// SPDX-License-Identifier: Apache-2.0
// Reads the state of a rank's processes from /proc. A process may exit or change during the read;
// what no longer exists is left out. Shell; blocks only for the kernel's answer, which is immediate
// for /proc. Any thread.
#pragma once

#include "hang/evidence.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace muster::hang {

// Per rank; further processes are left out.
inline constexpr std::size_t kProcessesMax = 64;

// Total usage of `root` and its descendants since their start.
struct Used {
  double cpu_seconds = 0;  // including run-queue wait
  std::uint64_t io_bytes = 0;
};

[[nodiscard]] Used used_by(pid_t root);

// The process and all its descendants, breadth first.
[[nodiscard]] std::vector<ProcessFacts> read_processes(pid_t root);

struct ThreadUse {
  double cpu = 0;  // seconds so far
  char state = '?';
};

// For each thread, by tid.
[[nodiscard]] std::map<pid_t, ThreadUse> thread_use(const std::vector<ProcessFacts>& processes);

// Sets the CPU time of each thread since `before`, which was taken `seconds` ago.
void add_cpu(std::vector<RankEvidence>& ranks,
             const std::map<pid_t, ThreadUse>& before,
             double seconds);

// Sets the process at the other end of the pipes that threads wait for.
void find_other_sides(std::vector<RankEvidence>& ranks);

}  // namespace muster::hang
