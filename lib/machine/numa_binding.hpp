// SPDX-License-Identifier: Apache-2.0
// Which CPUs and which memory each local rank gets with --numa-binding: by the place of its GPU
// or, without GPUs, by spreading the ranks over the machine. Used by LinuxMachine; plan/ reads the
// result. Values; pure but for the files that it reads through the caller's function.
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
  CpuSet usable;          // the affinity mask, which the kernel keeps within the cpuset
  CpuSet memory_allowed;  // NUMA nodes of the cpuset; empty: leave memory to the kernel
  // The PCI address of each visible GPU, "" where unknown. Local rank i uses the i-th; with fewer
  // of them than ranks the ranks are spread as without GPUs.
  std::vector<std::string> gpus;
};

struct RankBinding {
  CpuSet cpus;
  CpuSet
      memory;  // NUMA nodes to take memory from, where they have some; empty: as the kernel likes
  int owned =
      0;  // CPUs that it may count as its own: its mask, shared with those who have the same
  bool operator==(const RankBinding&) const = default;
};

struct NumaPlan {
  std::vector<RankBinding> ranks;  // empty: nothing is bound
  int cpus = 0;                    // of all ranks together
  std::string reason;              // for --explain: "by the nodes of 8 GPUs"
  bool operator==(const NumaPlan&) const = default;
};

// Every mask is a part of `usable` and not empty; two are equal or have nothing in common. Errors:
// usage, without the option's name (a GPU at whose node no CPU may be used, more ranks than cores
// for `exclusive`).
[[nodiscard]] Result<NumaPlan> bind_ranks(const NumaRequest& request, const TextReader& read);

}  // namespace muster
