// SPDX-License-Identifier: Apache-2.0
#include "process/values/memory_policy.hpp"

#include <limits>

namespace muster {
namespace {

// Of linux/mempolicy.h, whose older copies lack the second.
constexpr int kPreferred = 1;
constexpr int kPreferredMany = 5;

}  // namespace

MemoryPolicy memory_policy(const CpuSet& nodes) {
  MemoryPolicy policy;
  policy.mode = nodes.count() > 1 ? kPreferredMany : kPreferred;
  policy.nodes = nodes.words();
  // The kernel takes one from it.
  policy.bits = policy.nodes.size() * std::numeric_limits<CpuSet::Word>::digits + 1;
  return policy;
}

}  // namespace muster
