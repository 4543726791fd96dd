// SPDX-License-Identifier: Apache-2.0
// The CPU time and the memory that processes and all their descendants use. Values.
#pragma once

#include "process/tree/descendants.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include <sys/types.h>

namespace muster {

struct TreeUse {
  double cpu_seconds = 0;    // since the start of each running process
  std::uint64_t memory = 0;  // resident bytes; pages that processes share count once in each
};

// The root of each process that descends from a root, and of the roots themselves. `rows`: parents
// before their children. Pure.
[[nodiscard]] std::map<pid_t, pid_t> roots_by_pid(std::span<const pid_t> roots,
                                                  std::span<const ProcessRow> rows);

// `rows`: parents before their children. Pure.
[[nodiscard]] std::map<pid_t, TreeUse> sum_use(std::span<const pid_t> roots,
                                               std::span<const ProcessRow> rows);

}  // namespace muster
