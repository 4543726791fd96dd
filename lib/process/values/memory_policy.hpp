// SPDX-License-Identifier: Apache-2.0
// Arguments for set_mempolicy to allocate memory near a worker's CPUs. Used by spawn and zygote.
// Value, pure.
#pragma once

#include "base/cpu_set.hpp"

#include <vector>

namespace muster {

struct MemoryPolicy {
  int mode = 0;
  std::vector<CpuSet::Word> nodes;  // if empty, the policy is not changed
  unsigned long bits = 0;           // the number of bits in `nodes` plus one

  bool operator==(const MemoryPolicy&) const = default;
};

// The policy prefers nodes instead of binding to them (README.md explains why). It contains one
// node, or several on Linux 5.15 and later.
[[nodiscard]] MemoryPolicy memory_policy(const CpuSet& nodes);

}  // namespace muster
