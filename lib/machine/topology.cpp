// SPDX-License-Identifier: Apache-2.0
#include "machine/topology.hpp"

#include "base/text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <string>

namespace muster {
namespace {

constexpr std::string_view kNodes = "/sys/devices/system/node/";
constexpr std::string_view kCpus = "/sys/devices/system/cpu/cpu";
constexpr int kNodesMax = 1024;      // MAX_NUMNODES in all kernels
constexpr int kCacheIndexMax = 16;   // real CPUs have four or five
constexpr int kNodeWithoutNuma = 0;  // the kernel's ID for a single node

std::optional<CpuSet> read_set(const TextReader& read, const std::string& path) {
  const auto text = read(path);
  return text ? CpuSet::parse(*text) : std::nullopt;
}

std::optional<int> read_number(const TextReader& read, const std::string& path) {
  const auto text = read(path);
  const auto number = text ? parse_int(*text) : std::nullopt;
  const bool fits = number && *number >= -1 && *number < std::numeric_limits<int>::max();
  return fits ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

// The CPUs that share the last-level cache with this CPU, ignoring instruction caches.
std::optional<CpuSet> sharers_of_last_cache(const TextReader& read, int cpu) {
  int level_max = 0;
  std::optional<std::string> last;
  for (int index = 0; index < kCacheIndexMax; ++index) {
    const std::string folder = fmt::format("{}{}/cache/index{}/", kCpus, cpu, index);
    const auto level = read_number(read, folder + "level");
    if (!level) {
      break;
    }
    if (*level > level_max && trim(read(folder + "type").value_or("")) != "Instruction") {
      level_max = *level;
      last = folder + "shared_cpu_list";
    }
  }
  return last ? read_set(read, *last) : std::nullopt;
}

// Partitions `cpus`: `together` returns the part that contains the lowest remaining CPU. That CPU
// is always added to its own part, because inconsistent files could otherwise cause an infinite
// loop.
template <class Together>
std::vector<CpuSet> parts_of(CpuSet cpus, const Together& together) {
  std::vector<CpuSet> parts;
  while (!cpus.empty()) {
    CpuSet own;
    own.add(cpus.first());
    const CpuSet part = (together(cpus.first()) & cpus) | own;
    cpus -= part;
    parts.push_back(part);
  }
  return parts;
}

}  // namespace

std::vector<NumaNode> numa_nodes(const TextReader& read, const CpuSet& usable) {
  const auto online = read_set(read, std::string(kNodes) + "online");
  std::vector<NumaNode> nodes;
  for (const int id : online.value_or(CpuSet{}).numbers()) {
    if (id < kNodesMax) {
      const auto cpus = read_set(read, fmt::format("{}node{}/cpulist", kNodes, id));
      nodes.push_back({id, cpus.value_or(CpuSet{})});
    }
  }
  const bool any = std::ranges::any_of(nodes, [](const auto& node) { return !node.cpus.empty(); });
  return any ? nodes : std::vector{NumaNode{kNodeWithoutNuma, usable}};
}

CpuSet memory_nodes(const TextReader& read) {
  return read_set(read, std::string(kNodes) + "has_memory").value_or(CpuSet{});
}

std::vector<CpuSet> physical_cores(const TextReader& read, const CpuSet& cpus) {
  return parts_of(cpus, [&](int cpu) {
    return read_set(read, fmt::format("{}{}/topology/thread_siblings_list", kCpus, cpu))
        .value_or(CpuSet{});
  });
}

std::vector<CpuSet> cache_groups(const TextReader& read, const CpuSet& cpus) {
  auto groups =
      parts_of(cpus, [&](int cpu) { return sharers_of_last_cache(read, cpu).value_or(cpus); });
  std::ranges::stable_sort(groups, std::ranges::greater{}, &CpuSet::count);
  return groups;
}

std::optional<int> socket_of(const TextReader& read, int cpu) {
  const auto number =
      read_number(read, fmt::format("{}{}/topology/physical_package_id", kCpus, cpu));
  return number && *number >= 0 ? number : std::nullopt;
}

std::optional<int> node_of_device(const TextReader& read, std::string_view address) {
  const auto node = read_number(read, fmt::format("/sys/bus/pci/devices/{}/numa_node", address));
  return node && *node >= 0 ? node : std::nullopt;
}

std::size_t nearest_with_cpus(const TextReader& read, std::span<const NumaNode> nodes, int from) {
  // One number per online node, in node order.
  const auto distances =
      split(trim(read(fmt::format("{}node{}/distance", kNodes, from)).value_or("")), ' ');
  std::optional<std::size_t> best;
  std::int64_t least = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto distance = i < distances.size() ? parse_int(distances[i]) : std::nullopt;
    const auto far = distance.value_or(std::numeric_limits<std::int64_t>::max());
    if (!nodes[i].cpus.empty() && (!best || far < least)) {
      best = i;
      least = far;
    }
  }
  return best.value_or(0);
}

}  // namespace muster
