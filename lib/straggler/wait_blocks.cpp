// SPDX-License-Identifier: Apache-2.0
#include "straggler/wait_blocks.hpp"

#include <algorithm>

namespace muster::straggler {
namespace {

// A wait may have started before the block, so it can be longer than the block. The ratio is
// clamped to this value.
constexpr double kWaitedMost = 2;

// Sets of ranks that share operations. Each set is identified by its lowest rank.
class Sets {
 public:
  int find(int rank) {
    int at = rank;
    for (auto next = above_.find(at); next != above_.end(); next = above_.find(at)) {
      at = next->second;
    }
    return at;
  }

  void join(int one, int other) {
    const auto [low, high] = std::minmax({find(one), find(other)});
    if (low != high) {
      above_[high] = low;
    }
  }

 private:
  std::map<int, int> above_;
};

const GroupWaits* find_group(const RankWaits* rank, const std::string& group) {
  if (rank == nullptr) {
    return nullptr;
  }
  const auto found = std::ranges::find(rank->groups, group, &GroupWaits::group);
  return found == rank->groups.end() ? nullptr : &*found;
}

// The increase since `before`. A counter that has decreased was reset.
GroupWaits since(const GroupWaits* before, const GroupWaits& now) {
  const bool anew = before == nullptr || now.operations < before->operations ||
                    now.waits < before->waits || now.waited < before->waited;
  GroupWaits out = now;
  if (!anew) {
    out.operations -= before->operations;
    out.waits -= before->waits;
    out.waited -= before->waited;
  }
  return out;
}

Duration part_of(Duration whole, double share) {
  return Duration(static_cast<Duration::rep>(static_cast<double>(whole.count()) * share));
}

// True if these waits were read on another node, whose clock differs from ours.
bool is_of_another_node(const RankWaits* before, const RankWaits& now) {
  return before != nullptr && now.at > before->at;
}

// The time between two readings of this rank. Other nodes do not take their readings at the same
// time as this node.
Duration own_time(const RankWaits* before, const RankWaits& now, Duration looked) {
  return is_of_another_node(before, now) ? now.at - before->at : looked;
}

// All ranks of a communicator wait in the same operations. However, nodes take their readings at
// different times, so a block starts and ends in the middle of different operations on each node.
// The number of waits therefore indicates better than the elapsed time how much of the block a
// rank's readings cover. Two ranks whose numbers of waits differ by more than this do not share
// their operations.
bool waited_as_often(std::uint64_t own, std::uint64_t most) {
  return own > 0 && most - own <= most / 3 + 1;
}

// The duration of the block on the node of the rank that waited most often.
Duration time_of(const std::map<std::string, WaitBlocks::Busiest>& busiest, Duration looked) {
  WaitBlocks::Busiest most{0, looked};
  for (const auto& [group, one] : busiest) {
    most = one.waits > most.waits ? one : most;
  }
  return most.own;
}

// The share of the block in which a rank has waited. Bounded, because totals from other nodes are
// untrusted.
double share_waited(const GroupWaits& added, Duration own, const WaitBlocks::Busiest* peer) {
  if (peer == nullptr || !waited_as_often(added.waits, peer->waits)) {
    return std::min(kWaitedMost, share_of(added.waited, own));
  }
  const double as_often = static_cast<double>(peer->waits) / static_cast<double>(added.waits);
  return std::min(kWaitedMost, as_often * share_of(added.waited, peer->own));
}

}  // namespace

double share_of(Duration part, Duration whole) {
  return whole > Duration::zero()
             ? static_cast<double>(part.count()) / static_cast<double>(whole.count())
             : 0;
}

const RankWaits* WaitBlocks::before(int rank) const {
  const auto found = base_.find(rank);
  return found == base_.end() ? nullptr : &found->second;
}

std::map<std::string, WaitBlocks::Busiest> WaitBlocks::busiest_in(
    const std::vector<RankWaits>& ranks, Duration looked) const {
  std::map<std::string, Busiest> out;
  for (const RankWaits& rank : ranks) {
    for (const GroupWaits& group : rank.groups) {
      const GroupWaits added = since(find_group(before(rank.rank), group.group), group);
      Busiest& most = out[group.group];
      if (added.waits >= most.waits) {
        most = {added.waits, own_time(before(rank.rank), rank, looked)};
      }
    }
  }
  return out;
}

WaitBlocks::Block WaitBlocks::block_until(TimePoint now,
                                          const std::vector<RankWaits>& ranks) const {
  const Duration looked = now - *begun_;
  const auto busiest = busiest_in(ranks, looked);
  Block block;
  block.time = time_of(busiest, looked);
  Sets sets;
  std::map<std::string, int> first_of;  // one rank of each communicator
  for (const RankWaits& rank : ranks) {
    const RankWaits* const last = before(rank.rank);
    if (last != nullptr && last->step && rank.step) {
      const std::uint64_t steps = *rank.step - std::min(*rank.step, *last->step);
      block.steps = std::max(block.steps.value_or(0), steps);
    }
    const Duration own = own_time(last, rank, looked);
    const bool elsewhere = is_of_another_node(last, rank);
    Part part;
    bool called = false;
    for (const GroupWaits& group : rank.groups) {
      const GroupWaits added = since(find_group(last, group.group), group);
      if (added.operations == 0 && added.waits == 0) {
        continue;
      }
      called = true;
      part.waits += added.waits;
      const double share = share_waited(added, own, elsewhere ? &busiest.at(group.group) : nullptr);
      part.waited =
          std::min(part.waited + part_of(block.time, share), part_of(block.time, kWaitedMost));
      sets.join(first_of.try_emplace(group.group, rank.rank).first->second, rank.rank);
    }
    if (called) {
      block.parts[rank.rank] = part;
    }
  }
  for (auto& [rank, part] : block.parts) {
    part.group = sets.find(rank);
  }
  return block;
}

std::uint64_t WaitBlocks::Block::waits() const {
  std::uint64_t most = 0;
  for (const auto& [rank, part] : parts) {
    most = std::max(most, part.waits);
  }
  return std::min(most, kCountMax);
}

std::uint64_t WaitBlocks::Block::count() const {
  return std::min(steps.value_or(waits()), kCountMax);
}

bool WaitBlocks::is_whole(const Block& block) const {
  return block.time >= least_ && block.count() >= kBlockSteps && !block.parts.empty();
}

bool WaitBlocks::looked(TimePoint now, const std::vector<RankWaits>& ranks) {
  if (ranks.empty()) {
    return false;
  }
  const bool is_first = !begun_;
  if (!is_first) {
    current_ = block_until(now, ranks);
    if (!is_whole(current_)) {
      return false;
    }
    blocks_.push_back(std::exchange(current_, {}));
    if (blocks_.size() > kept_) {
      blocks_.pop_front();
    }
  }
  begun_ = now;
  base_.clear();
  for (const RankWaits& rank : ranks) {
    base_[rank.rank] = rank;
  }
  return !is_first;
}

std::map<int, double> WaitBlocks::shares() const {
  std::map<int, Duration> waited;
  Duration time = current_.time;
  for (const auto& [rank, part] : current_.parts) {
    waited[rank] += part.waited;
  }
  for (const Block& block : blocks_) {
    time += block.time;
    for (const auto& [rank, part] : block.parts) {
      waited[rank] += part.waited;
    }
  }
  std::map<int, double> out;
  for (const auto& [rank, sum] : waited) {
    out[rank] = std::min(1.0, share_of(sum, time));
  }
  return out;
}

WaitBlocks::Sums WaitBlocks::sums_of(int group, std::size_t blocks) const {
  Sums out;
  std::map<int, std::pair<Duration, std::size_t>> by_rank;
  for (std::size_t i = blocks_.size() - std::min(blocks, blocks_.size()); i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    out.time += block.time;
    out.steps += block.steps.value_or(0);
    out.stepped += block.steps ? block.time : Duration::zero();
    for (const auto& [rank, part] : block.parts) {
      if (part.group == group) {
        by_rank[rank].first += part.waited;
        ++by_rank[rank].second;
      }
    }
  }
  for (const auto& [rank, sum] : by_rank) {
    if (sum.second == std::min(blocks, blocks_.size())) {
      out.waited.emplace_back(sum.first, rank);
    }
  }
  std::ranges::sort(out.waited);
  return out;
}

}  // namespace muster::straggler
