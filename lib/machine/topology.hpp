// SPDX-License-Identifier: Apache-2.0
// How this machine's CPUs lie: NUMA nodes, sockets, physical cores, shared caches, and the node
// that a device is at, from the texts of /sys. Each question reads only the files that its answer
// needs. Used by numa_binding. Pure: files are read through a function that the caller gives.
#pragma once

#include "base/cpu_set.hpp"
#include "machine/cpu_count.hpp"

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace muster {

struct NumaNode {
  int id = 0;
  CpuSet cpus;  // those that are online; a node of memory alone has none
  bool operator==(const NumaNode&) const = default;
};

// All online nodes by id. A kernel without NUMA shows none: then one node 0 with all of `usable`.
[[nodiscard]] std::vector<NumaNode> numa_nodes(const TextReader& read, const CpuSet& usable);

// The nodes that have memory; none where the kernel does not say.
[[nodiscard]] CpuSet memory_nodes(const TextReader& read);

// The physical cores among `cpus`, by their lowest CPU; hyper-threads of one core stay together. A
// CPU of which the kernel says nothing is a core of its own.
[[nodiscard]] std::vector<CpuSet> physical_cores(const TextReader& read, const CpuSet& cpus);

// `cpus` by the outermost cache that they share, the largest group first, equal ones by their
// lowest CPU. CPUs of which the kernel says nothing are one group.
[[nodiscard]] std::vector<CpuSet> cache_groups(const TextReader& read, const CpuSet& cpus);

// The socket that a CPU is in; none where the kernel does not say.
[[nodiscard]] std::optional<int> socket_of(const TextReader& read, int cpu);

// The node of a PCI device ("0000:07:00.0"); none where the kernel does not know (-1).
[[nodiscard]] std::optional<int> node_of_device(const TextReader& read, std::string_view address);

// Of the nodes that have CPUs, the nearest to node `from`: its place in `nodes`, the first one
// where the kernel says no distances. `nodes` are those of numa_nodes, one of which has CPUs.
[[nodiscard]] std::size_t nearest_with_cpus(const TextReader& read,
                                            std::span<const NumaNode> nodes,
                                            int from);

}  // namespace muster
