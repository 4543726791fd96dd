// SPDX-License-Identifier: Apache-2.0
// The CPUs and memory of each local rank with --numa-binding: near its GPU or, without GPUs,
// distributed over the host. Used by LinuxMachine; plan/ reads the result. Values; pure except for
// the files read through the caller's function.
#pragma once

#include "base/cpu_set.hpp"
#include "base/error.hpp"
#include "machine/cpu_count.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster {

enum class NumaPolicy { none, automatic, node, socket, exclusive, core_complex };

struct NumaRequest {
  NumaPolicy policy = NumaPolicy::none;
  int ranks = 1;
  CpuSet usable;          // the affinity mask, which is always within the cpuset
  CpuSet memory_allowed;  // NUMA nodes of the cpuset; empty: leave memory to the kernel
  // The PCI address of each visible GPU, "" if unknown. Local rank i uses the i-th GPU. With fewer
  // GPUs than ranks, the ranks are distributed as without GPUs.
  std::vector<std::string> gpus;
};

struct RankBinding {
  CpuSet cpus;
  CpuSet memory;  // NUMA nodes to prefer for memory; empty: the kernel's default
  int owned = 0;  // its share of the CPUs in its mask, which other ranks may have too
  bool operator==(const RankBinding&) const = default;
};

struct NumaPlan {
  std::vector<RankBinding> ranks;  // empty: no binding
  int cpus = 0;                    // total of all ranks
  std::string reason;              // for --explain: "by the NUMA nodes of 8 GPUs"
  bool operator==(const NumaPlan&) const = default;
};

// Every mask is a nonempty subset of `usable`; two masks are equal or disjoint. Errors: usage,
// without the option's name (no usable CPU on a GPU's node, more ranks than cores for `exclusive`).
[[nodiscard]] Result<NumaPlan> bind_ranks(const NumaRequest& request, const TextReader& read);

}  // namespace muster
