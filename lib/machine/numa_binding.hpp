// SPDX-License-Identifier: Apache-2.0
// The CPUs and memory of each local rank with --numa-binding: near its GPU or, without GPUs, spread
// across the host. Used by LinuxMachine; plan/ reads the result. Values; pure except for the files
// that the caller's function reads.
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
  CpuSet memory_allowed;  // NUMA nodes of the cpuset; if empty, leave memory to the kernel
  // The PCI address of each visible GPU, "" if unknown. Local rank i uses the i-th GPU. If there
  // are fewer GPUs than ranks, the ranks are spread as if there were no GPUs.
  std::vector<std::string> gpus;
};

struct RankBinding {
  CpuSet cpus;
  CpuSet memory;  // NUMA nodes to prefer for memory; the kernel's default if empty
  int owned = 0;  // the rank's share of the CPUs in its mask, which other ranks may also use
  bool operator==(const RankBinding&) const = default;
};

struct NumaPlan {
  std::vector<RankBinding> ranks;  // empty if ranks are not bound
  int cpus = 0;                    // total of all ranks
  std::string reason;              // for --explain: "by the NUMA nodes of 8 GPUs"
  bool operator==(const NumaPlan&) const = default;
};

// Every mask is a nonempty subset of `usable`, and any two masks are either equal or disjoint.
// Error: usage, without the option's name, if a GPU's node has no usable CPU, or if `exclusive` has
// more ranks than cores.
[[nodiscard]] Result<NumaPlan> bind_ranks(const NumaRequest& request, const TextReader& read);

}  // namespace muster
