// SPDX-License-Identifier: Apache-2.0
// Reads the state of a rank's processes from /proc. A process may exit or change while it is read;
// vanished processes are omitted. Performs I/O, but the kernel serves /proc without delay.
// Thread-safe.
#pragma once

#include "hang/evidence.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace muster::hang {

// Limit per rank; further processes are omitted.
inline constexpr std::size_t kProcessesMax = 64;

// Total resource usage of `root` and its descendants since they were started.
struct Used {
  double cpu_seconds = 0;  // including run-queue wait
  std::uint64_t io_bytes = 0;
};

[[nodiscard]] Used used_by(pid_t root);

// The process and all of its descendants, breadth-first.
[[nodiscard]] std::vector<ProcessFacts> read_processes(pid_t root);

struct ThreadUse {
  double cpu = 0;  // CPU time so far, in seconds
  char state = '?';
};

// The resource usage of each thread, by tid.
[[nodiscard]] std::map<pid_t, ThreadUse> thread_use(const std::vector<ProcessFacts>& processes);

// Sets the CPU usage of each thread since `before`, which was taken `seconds` ago.
void add_cpu(std::vector<RankEvidence>& ranks,
             const std::map<pid_t, ThreadUse>& before,
             double seconds);

// For threads that wait on a pipe, sets the process at the other end of the pipe.
void find_other_sides(std::vector<RankEvidence>& ranks);

}  // namespace muster::hang
