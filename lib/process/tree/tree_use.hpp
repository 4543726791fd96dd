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

// `rows`: parents before their children. Pure.
[[nodiscard]] std::map<pid_t, TreeUse> sum_use(std::span<const pid_t> roots,
                                               std::span<const ProcessRow> rows);

// The use of those `roots` that are descendants of this process, by root.
[[nodiscard]] std::map<pid_t, TreeUse> use_of_trees(std::span<const pid_t> roots);

}  // namespace muster
