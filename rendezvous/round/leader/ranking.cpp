// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/round/leader/ranking.hpp"

#include "base/natural.hpp"
#include "base/same_host.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

namespace muster {
namespace {

using Nodes = std::vector<NodeInfo>;

std::size_t place_in(const std::vector<std::string>& order, const std::string& name) {
  const auto found = std::ranges::find_if(
      order, [&](const std::string& listed) { return is_same_host(listed, name); });
  return static_cast<std::size_t>(found - order.begin());
}

bool is_same_place(const NodeInfo& a, const NodeInfo& b) {
  return a.name == b.name && a.address == b.address;
}

// Orders the nodes on one host. Nodes of the previous round keep their order, and new nodes fill
// the gaps.
void keep_order(Nodes& same_place, const Nodes& previous) {
  std::vector<NodeId> slots;
  for (const NodeInfo& node : previous) {
    if (is_same_place(node, same_place.front())) {
      slots.push_back(node.id);
    }
  }
  const auto slot_of = [&](NodeId id) { return std::ranges::find(slots, id) - slots.begin(); };
  std::vector<std::pair<std::ptrdiff_t, NodeInfo>> placed;
  std::vector<bool> taken(slots.size() + same_place.size(), false);
  for (const NodeInfo& node : same_place) {
    if (const auto slot = slot_of(node.id); slot < std::ssize(slots)) {
      placed.emplace_back(slot, node);
      taken[static_cast<std::size_t>(slot)] = true;
    }
  }
  for (const NodeInfo& node : same_place) {
    if (slot_of(node.id) == std::ssize(slots)) {
      // If exactly one agent has left, its slot is the lowest free slot, so its replacement takes
      // that slot. In any case, the agents that stayed keep their order.
      const auto free = std::ranges::find(taken, false) - taken.begin();
      placed.emplace_back(free, node);
      taken[static_cast<std::size_t>(free)] = true;
    }
  }
  std::ranges::sort(placed, {}, &std::pair<std::ptrdiff_t, NodeInfo>::first);
  for (std::size_t i = 0; i < placed.size(); ++i) {
    same_place[i] = std::move(placed[i].second);
  }
}

void sort_by_name(Nodes& nodes, const std::vector<std::string>& order, const Nodes& previous) {
  // Search the list of names once per node instead of once per comparison.
  std::vector<std::pair<std::size_t, NodeInfo>> keyed;
  keyed.reserve(nodes.size());
  for (NodeInfo& node : nodes) {
    keyed.emplace_back(place_in(order, node.name), std::move(node));
  }
  std::ranges::stable_sort(keyed, [](const auto& a, const auto& b) {
    if (a.first != b.first) {
      return a.first < b.first;
    }
    if (a.second.name != b.second.name) {
      return natural_less(a.second.name, b.second.name);
    }
    return natural_less(a.second.address, b.second.address);
  });
  // natural_less treats only identical texts as equal, so the agents on one host are adjacent now.
  Nodes sorted;
  sorted.reserve(keyed.size());
  for (std::size_t from = 0; from < keyed.size();) {
    Nodes same_place;
    std::size_t to = from;
    while (to < keyed.size() && (to == from || is_same_place(keyed[to].second, same_place[0]))) {
      same_place.push_back(keyed[to++].second);
    }
    if (same_place.size() > 1) {
      keep_order(same_place, previous);
    }
    std::ranges::move(same_place, std::back_inserter(sorted));
    from = to;
  }
  nodes = std::move(sorted);
}

}  // namespace

Nodes rank_nodes(Nodes nodes, const std::vector<std::string>& rank_order, const Nodes& previous) {
  // Sort first: the first node in this order wins a rank that several nodes request.
  sort_by_name(nodes, rank_order, previous);
  std::vector<std::optional<NodeInfo>> places(nodes.size());
  Nodes others;
  for (NodeInfo& node : nodes) {
    const auto wanted = static_cast<std::size_t>(node.node_rank);
    if (node.node_rank >= 0 && wanted < places.size() && !places[wanted]) {
      places[wanted] = std::move(node);
    } else {
      others.push_back(std::move(node));
    }
  }
  std::ranges::stable_partition(others, [](const NodeInfo& node) { return node.node_rank < 0; });
  Nodes ranked;
  auto next = others.begin();
  // There are as many nodes as places, so `next` never runs past the end.
  for (auto& place : places) {
    ranked.push_back(place ? std::move(*place) : std::move(*next++));
  }
  return ranked;
}

RankSpan ranks_of(const Round& round, NodeId member) {
  // The limits for members and workers per node (round_limits.hpp) allow a sum that exceeds 32
  // bits.
  std::int64_t first = 0;
  for (const NodeInfo& node : round.members) {
    if (node.id == member && first <= std::numeric_limits<std::int32_t>::max()) {
      return {static_cast<std::int32_t>(first), node.nproc};
    }
    first += node.nproc;
  }
  return {};
}

}  // namespace muster
