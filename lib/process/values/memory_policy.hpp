// SPDX-License-Identifier: Apache-2.0
// The arguments of set_mempolicy for memory near a worker's CPUs. Used by spawn and zygote. Value,
// pure.
#pragma once

#include "base/cpu_set.hpp"

#include <vector>

namespace muster {

struct MemoryPolicy {
  int mode = 0;
  std::vector<CpuSet::Word> nodes;  // empty: the policy stays as it is
  unsigned long bits = 0;           // how much of `nodes` the kernel reads, and one

  bool operator==(const MemoryPolicy&) const = default;
};

// Preferred, not bound (README.md says why): one node, or several from Linux 5.15 on.
[[nodiscard]] MemoryPolicy memory_policy(const CpuSet& nodes);

}  // namespace muster
