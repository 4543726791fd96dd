// SPDX-License-Identifier: Apache-2.0
// The CPU topology of this host: NUMA nodes, sockets, physical cores, shared caches, and the node
// of a device, from files in /sys. Each function reads only the files that it needs. Used by
// numa_binding. Pure: the caller passes a function that reads files.
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
  CpuSet cpus;  // online CPUs; empty for a memory-only node
  bool operator==(const NumaNode&) const = default;
};

// All online NUMA nodes, sorted by ID. A kernel without NUMA lists no nodes; the result is then
// node 0 with all CPUs in `usable`.
[[nodiscard]] std::vector<NumaNode> numa_nodes(const TextReader& read, const CpuSet& usable);

// The nodes that have memory; empty if the kernel does not report it.
[[nodiscard]] CpuSet memory_nodes(const TextReader& read);

// The physical cores in `cpus`, sorted by their lowest CPU; hyper-threads of one core stay
// together. A CPU that the kernel's files do not list counts as a separate core.
[[nodiscard]] std::vector<CpuSet> physical_cores(const TextReader& read, const CpuSet& cpus);

// Groups `cpus` by last-level cache: the largest group first, then by lowest CPU. CPUs that the
// kernel's files do not list form one group.
[[nodiscard]] std::vector<CpuSet> cache_groups(const TextReader& read, const CpuSet& cpus);

// The socket of a CPU; none if the kernel does not report it.
[[nodiscard]] std::optional<int> socket_of(const TextReader& read, int cpu);

// The node of a PCI device ("0000:07:00.0"); none if the kernel does not report it (-1).
[[nodiscard]] std::optional<int> node_of_device(const TextReader& read, std::string_view address);

// The index in `nodes` of the node with CPUs that is nearest to node `from`; the first such node if
// the kernel reports no distances. `nodes` come from numa_nodes, so at least one has CPUs.
[[nodiscard]] std::size_t nearest_with_cpus(const TextReader& read,
                                            std::span<const NumaNode> nodes,
                                            int from);

}  // namespace muster
