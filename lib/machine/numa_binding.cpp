// SPDX-License-Identifier: Apache-2.0
#include "machine/numa_binding.hpp"

#include "base/plural.hpp"
#include "machine/topology.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>

namespace muster {
namespace {

// A group of CPUs and their memory: one NUMA node, or one socket with all its nodes.
struct Place {
  CpuSet cpus;    // only usable CPUs
  CpuSet memory;  // IDs of the NUMA nodes in this group
};

// The inputs of the functions in this file.
struct Layout {
  const NumaRequest& request;
  const TextReader& read;
  std::vector<NumaNode> nodes;
};

// The nodes of one socket, or a single node if the kernel does not report sockets.
Place place_of(const Layout& layout, std::size_t index) {
  const NumaNode& own = layout.nodes[index];
  const bool whole_socket = layout.request.policy == NumaPolicy::socket;
  const auto socket_of_node = [&](const NumaNode& node) {
    return node.cpus.empty() ? std::nullopt : socket_of(layout.read, node.cpus.first());
  };
  const auto socket = whole_socket ? socket_of_node(own) : std::nullopt;
  Place place;
  for (const NumaNode& node : layout.nodes) {
    if (&node == &own || (socket && socket_of_node(node) == socket)) {
      place.cpus |= node.cpus & layout.request.usable;
      place.memory.add(node.id);
    }
  }
  return place;
}

// -- with GPUs ---------------------------------------------------------------------------------

// Fallback for a GPU whose node the kernel does not report: the first usable node. (torchrun uses
// node 0.)
std::size_t first_usable(const Layout& layout) {
  const auto found = std::ranges::find_if(layout.nodes, [&](const NumaNode& node) {
    return !(node.cpus & layout.request.usable).empty();
  });
  return static_cast<std::size_t>(std::distance(layout.nodes.begin(), found));
}

// The index of the NUMA node whose CPUs are closest to the GPU: the GPU's own node or, if that node
// has no CPUs, the nearest node with CPUs.
std::size_t node_near(const Layout& layout, const std::string& gpu) {
  const auto id = node_of_device(layout.read, gpu);
  const auto found = std::ranges::find(layout.nodes, id.value_or(-1), &NumaNode::id);
  if (found == layout.nodes.end()) {
    return first_usable(layout);
  }
  return found->cpus.empty() ? nearest_with_cpus(layout.read, layout.nodes, found->id)
                             : static_cast<std::size_t>(std::distance(layout.nodes.begin(), found));
}

Result<std::vector<std::size_t>> homes_by_gpu(const Layout& layout) {
  std::vector<std::size_t> homes;
  for (int rank = 0; rank < layout.request.ranks; ++rank) {
    const std::string& gpu = layout.request.gpus[static_cast<std::size_t>(rank)];
    const std::size_t home = node_near(layout, gpu);
    if (place_of(layout, home).cpus.empty()) {
      return failure(Errc::usage,
                     fmt::format("local rank {} has GPU {} on NUMA node {}, but this process may "
                                 "not use CPUs of that node (only {}). Request CPUs near the GPUs "
                                 "from the scheduler, or pass --numa-binding=none",
                                 rank,
                                 gpu,
                                 layout.nodes[home].id,
                                 layout.request.usable.describe()));
    }
    homes.push_back(home);
  }
  return homes;
}

// -- without GPUs ------------------------------------------------------------------------------

// One node per place, so that no socket is counted twice.
std::vector<std::size_t> distinct_places(const Layout& layout) {
  std::vector<std::size_t> out;
  CpuSet seen;
  for (std::size_t i = 0; i < layout.nodes.size(); ++i) {
    const CpuSet cpus = place_of(layout, i).cpus;
    if (!cpus.empty() && (cpus & seen).empty()) {
      seen |= cpus;
      out.push_back(i);
    }
  }
  return out;
}

// Keeps consecutive ranks together and assigns ranks to each place in proportion to its size: rank
// i of n gets the place of the CPU (or core) at position i/n among all places.
std::vector<std::size_t> homes_by_spreading(const Layout& layout) {
  const std::vector<std::size_t> places = distinct_places(layout);
  const bool by_core = layout.request.policy == NumaPolicy::exclusive;
  std::vector<std::size_t> owner;  // the place of each CPU or core
  for (const std::size_t index : places) {
    const CpuSet cpus = place_of(layout, index).cpus;
    const std::size_t units =
        by_core ? physical_cores(layout.read, cpus).size() : static_cast<std::size_t>(cpus.count());
    owner.insert(owner.end(), units, index);
  }
  const auto ranks = static_cast<std::size_t>(layout.request.ranks);
  std::vector<std::size_t> homes;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    homes.push_back(owner[rank * owner.size() / ranks]);
  }
  return homes;
}

// -- the share of each rank --------------------------------------------------------------------

// Divides the cores into `count` parts and returns part `index`. If the cores cannot be divided
// equally, the first parts get one more core each.
CpuSet share_of(const std::vector<CpuSet>& cores, std::size_t index, std::size_t count) {
  const std::size_t each = cores.size() / count;
  const std::size_t larger = cores.size() % count;
  const std::size_t begin = index * each + std::min(index, larger);
  const std::size_t end = begin + each + (index < larger ? 1 : 0);
  CpuSet out;
  for (std::size_t i = begin; i < end; ++i) {
    out |= cores[i];
  }
  return out;
}

// The masks of the ranks at one place, in rank order.
Result<std::vector<CpuSet>> masks_at(const Layout& layout,
                                     std::size_t home,
                                     const Place& place,
                                     std::size_t count) {
  const NumaPolicy policy = layout.request.policy;
  if (policy != NumaPolicy::exclusive && policy != NumaPolicy::core_complex) {
    return std::vector<CpuSet>(count, place.cpus);
  }
  const bool exclusive = policy == NumaPolicy::exclusive;
  const std::vector<CpuSet> parts =
      exclusive ? physical_cores(layout.read, place.cpus) : cache_groups(layout.read, place.cpus);
  if (exclusive && parts.size() < count) {
    return failure(
        Errc::usage,
        fmt::format(
            "{} workers belong to NUMA node {}, which has only {}. Start fewer workers, or pass "
            "--numa-binding=node",
            count,
            layout.nodes[home].id,
            counted(parts.size(), "usable physical core")));
  }
  std::vector<CpuSet> masks;
  for (std::size_t i = 0; i < count; ++i) {
    masks.push_back(exclusive ? share_of(parts, i, count) : parts[i % parts.size()]);
  }
  return masks;
}

Result<std::vector<RankBinding>> bind_at(const Layout& layout,
                                         const std::vector<std::size_t>& homes) {
  // Do not request a node without memory or outside the cpuset.
  const CpuSet memory = memory_nodes(layout.read) & layout.request.memory_allowed;
  std::vector<RankBinding> ranks(homes.size());
  for (std::size_t home = 0; home < layout.nodes.size(); ++home) {
    const auto count = static_cast<std::size_t>(std::ranges::count(homes, home));
    if (count == 0) {
      continue;
    }
    const Place place = place_of(layout, home);
    auto masks = masks_at(layout, home, place, count);
    MUSTER_RETURN_IF_ERROR(masks);
    std::size_t next = 0;
    for (std::size_t rank = 0; rank < homes.size(); ++rank) {
      if (homes[rank] == home) {
        ranks[rank] = {(*masks)[next++], place.memory & memory, 0};
      }
    }
  }
  return ranks;
}

// -- auto --------------------------------------------------------------------------------------

bool has_gpus(const NumaRequest& request) {
  return request.gpus.size() >= static_cast<std::size_t>(request.ranks);
}

// The reason why `auto` does not bind the ranks; none if it binds them.
std::optional<std::string> why_not(const Layout& layout) {
  const NumaRequest& request = layout.request;
  const auto usable_nodes = std::ranges::count_if(
      layout.nodes, [&](const NumaNode& node) { return !(node.cpus & request.usable).empty(); });
  if (usable_nodes < 2) {
    return "all usable CPUs are on one NUMA node";
  }
  if (!has_gpus(request)) {
    return request.ranks == 1 ? std::optional<std::string>("one worker may use all CPUs")
                              : std::nullopt;
  }
  for (int rank = 0; rank < request.ranks; ++rank) {
    const std::string& gpu = request.gpus[static_cast<std::size_t>(rank)];
    if (!node_of_device(layout.read, gpu)) {
      return fmt::format("the kernel does not report the NUMA node of the GPU of local rank {}",
                         rank);
    }
    if ((layout.nodes[node_near(layout, gpu)].cpus & request.usable).empty()) {
      return fmt::format("no CPU near the GPU of local rank {} is usable", rank);
    }
  }
  return std::nullopt;
}

NumaPlan with_shares(NumaPlan plan) {
  std::map<std::vector<CpuSet::Word>, int> sharers;
  for (const RankBinding& rank : plan.ranks) {
    ++sharers[rank.cpus.words()];
  }
  for (RankBinding& rank : plan.ranks) {
    rank.owned = std::max(1, rank.cpus.count() / sharers.at(rank.cpus.words()));
  }
  for (const auto& [words, count] : sharers) {
    plan.cpus += CpuSet::from_words(words).count();
  }
  return plan;
}

std::string reason_of(const NumaRequest& request) {
  if (has_gpus(request)) {
    return fmt::format("by the NUMA nodes of {}", counted(request.ranks, "GPU"));
  }
  return request.gpus.empty() ? "spread across the CPUs because there are no GPUs"
                              : fmt::format("spread across the CPUs because there {} {} for {}",
                                            is_are(request.gpus.size()),
                                            counted(request.gpus.size(), "GPU"),
                                            counted(request.ranks, "worker"));
}

}  // namespace

Result<NumaPlan> bind_ranks(const NumaRequest& request, const TextReader& read) {
  NumaRequest decided = request;
  if (request.policy == NumaPolicy::none || request.usable.empty()) {
    return NumaPlan{};
  }
  Layout layout{decided, read, numa_nodes(read, request.usable)};
  if (first_usable(layout) == layout.nodes.size()) {
    return failure(Errc::usage, "no NUMA node in /sys has a usable CPU. Pass --numa-binding=none");
  }
  if (request.policy == NumaPolicy::automatic) {
    decided.policy = NumaPolicy::node;
    if (auto why = why_not(layout)) {
      return NumaPlan{{}, 0, std::move(*why)};
    }
  }
  const auto homes = has_gpus(decided)
                         ? homes_by_gpu(layout)
                         : Result<std::vector<std::size_t>>(homes_by_spreading(layout));
  MUSTER_RETURN_IF_ERROR(homes);
  auto ranks = bind_at(layout, *homes);
  MUSTER_RETURN_IF_ERROR(ranks);
  return with_shares({std::move(*ranks), 0, reason_of(decided)});
}

}  // namespace muster
