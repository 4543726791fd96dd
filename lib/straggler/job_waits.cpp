// SPDX-License-Identifier: Apache-2.0
#include "straggler/job_waits.hpp"

#include <algorithm>
#include <utility>

namespace muster::straggler {

void JobWaits::take(TimePoint now, NodeWaits told) {
  const int first = told.rank_first;
  const auto is_foreign = [&](const RankWaits& one) {
    return one.rank < first || one.rank - first >= told.ranks;
  };
  std::erase_if(told.waits, is_foreign);
  std::size_t sums = 0;
  for (const RankWaits& rank : told.waits) {
    sums += rank.groups.size();
  }
  const auto known = nodes_.find(first);
  const std::size_t before = known == nodes_.end() ? 0 : known->second.sums;
  if (sums == 0 || sums_ - before + sums > kJobSumsMax) {
    return;
  }
  sums_ = sums_ - before + sums;
  Node& node = nodes_[first];
  new_ += node.is_new ? 0U : 1U;
  node = {std::move(told), now, true, sums};
}

std::optional<std::vector<RankWaits>> JobWaits::next(TimePoint now) {
  if (nodes_.empty() || (new_ < nodes_.size() && now - scanned_ < kScanEach)) {
    return std::nullopt;
  }
  scanned_ = now;
  const auto is_awaited = [now](const auto& entry) {
    return !entry.second.is_new && now - entry.second.told < kNodeSilent;
  };
  if (std::ranges::any_of(nodes_, is_awaited)) {
    return std::nullopt;
  }
  new_ = 0;
  std::vector<RankWaits> out;
  for (auto& [first, node] : nodes_) {
    if (std::exchange(node.is_new, false)) {
      out.insert(out.end(), node.last.waits.begin(), node.last.waits.end());
    }
  }
  return out;
}

std::vector<SlowPlace> JobWaits::places_of(const std::vector<int>& ranks) const {
  std::vector<SlowPlace> out;
  for (const auto& [first, node] : nodes_) {
    SlowPlace place{.node = node.last.node};
    for (const int rank : ranks) {
      if (rank >= first && rank - first < node.last.ranks) {
        place.ranks.push_back(rank);
      }
    }
    place.whole = std::cmp_equal(place.ranks.size(), node.last.ranks);
    if (!place.ranks.empty()) {
      out.push_back(std::move(place));
    }
  }
  return out;
}

}  // namespace muster::straggler
