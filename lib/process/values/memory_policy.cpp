// SPDX-License-Identifier: Apache-2.0
#include "process/values/memory_policy.hpp"

#include <limits>

namespace muster {
namespace {

// From linux/mempolicy.h. Older versions lack the second constant.
constexpr int kPreferred = 1;
constexpr int kPreferredMany = 5;

}  // namespace

MemoryPolicy memory_policy(const CpuSet& nodes) {
  MemoryPolicy policy;
  policy.mode = nodes.count() > 1 ? kPreferredMany : kPreferred;
  policy.nodes = nodes.words();
  // The kernel subtracts one from this number.
  policy.bits = policy.nodes.size() * std::numeric_limits<CpuSet::Word>::digits + 1;
  return policy;
}

}  // namespace muster
