// SPDX-License-Identifier: Apache-2.0
#include "straggler/straggler_core.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace muster::straggler {
namespace {

using StepSums = WaitBlocks::Sums;

double seconds(Duration time) {
  return std::chrono::duration<double>(time).count();
}

// -- which ranks are slow ---------------------------------------------------------------------

// The gap in waiting time between the first `slow` ranks and all other ranks.
Duration gap_at(const std::vector<std::pair<Duration, int>>& waited, std::size_t slow) {
  return waited[slow].first - waited[slow - 1].first;
}

// Returns the number of slow ranks, at most half of all ranks. The number is chosen so that the gap
// in waiting time to the other ranks is as wide as possible.
std::size_t widest_gap(const std::vector<std::pair<Duration, int>>& waited) {
  std::size_t best = 1;
  for (std::size_t slow = 2; slow <= waited.size() / 2; ++slow) {
    best = gap_at(waited, slow) > gap_at(waited, best) ? slow : best;
  }
  return best;
}

// The mean time between two operations in which ranks wait.
Duration mean_turn(const WaitBlocks& seen) {
  Duration time{};
  std::uint64_t count = 0;
  for (const WaitBlocks::Block& block : seen.blocks()) {
    time += block.time;
    count += block.waits();
  }
  return count == 0 ? time : time / static_cast<Duration::rep>(count);
}

// True if the first `slow` ranks slow down the others in nearly all blocks.
bool is_sure(const WaitBlocks& seen, const SlowRule& rule, const StepSums& sums, std::size_t slow) {
  const Duration turn = mean_turn(seen);
  std::size_t slow_blocks = 0;
  double sum = 0;
  double squares = 0;
  for (const WaitBlocks::Block& block : seen.blocks()) {
    Duration most = Duration::zero();
    Duration least = Duration::max();
    for (std::size_t i = 0; i < sums.waited.size(); ++i) {
      const Duration waited = block.parts.at(sums.waited[i].second).waited;
      (i < slow ? most : least) = i < slow ? std::max(most, waited) : std::min(least, waited);
    }
    const Duration time =
        rule.whole_turns ? turn * static_cast<Duration::rep>(block.waits()) : block.time;
    const double share = share_of(least - most, time);
    slow_blocks += share > rule.share ? 1U : 0U;
    sum += share;
    squares += share * share;
  }
  const auto count = static_cast<double>(seen.blocks().size());
  const double mean = sum / count;
  const double variance = std::max(0.0, squares / count - mean * mean);
  return slow_blocks >= rule.slow && mean >= rule.deviations * std::sqrt(variance);
}

std::optional<Slow> slow_in(const WaitBlocks& seen, const SlowRule& rule, int group) {
  const StepSums sums = seen.sums_of(group, seen.blocks().size());
  if (sums.waited.size() < 2) {
    return std::nullopt;
  }
  const std::size_t slow = widest_gap(sums.waited);
  if (share_of(gap_at(sums.waited, slow), sums.time) <= rule.share ||
      !is_sure(seen, rule, sums, slow)) {
    return std::nullopt;
  }
  Slow out;
  for (std::size_t i = 0; i < slow; ++i) {
    out.ranks.push_back(sums.waited[i].second);
  }
  std::ranges::sort(out.ranks);
  const Duration lost = sums.waited[slow].first - sums.waited[0].first;
  out.share = share_of(lost, sums.time);
  // A program reports its first step some time after it has started, so the first block has no step
  // count.
  if (sums.steps > 0) {
    out.step_seconds = seconds(sums.stepped) / static_cast<double>(sums.steps);
    out.lost_seconds = *out.step_seconds * out.share;
  }
  return out;
}

// Groups of ranks without common operations are judged separately.
std::optional<Slow> find_slow(const WaitBlocks& seen, const SlowRule& rule) {
  std::optional<Slow> out;
  if (seen.blocks().size() < rule.slow) {
    return out;
  }
  for (const auto& [rank, part] : seen.blocks().back().parts) {
    if (part.group == rank) {
      auto found = slow_in(seen, rule, rank);
      out = found && (!out || found->share > out->share) ? std::move(found) : std::move(out);
    }
  }
  return out;
}

}  // namespace

void StragglerCore::begin() {
  *this = {};
}

void StragglerCore::looked(TimePoint now,
                           const std::vector<RankWaits>& ranks,
                           std::vector<StragglerEffect>& out) {
  const bool is_long = long_.looked(now, ranks);
  const bool is_short = short_.looked(now, ranks);
  if (is_long) {
    ++since_named_;
    end_named(out);
    name(now, find_slow(long_, kLongRule), out);
  }
  // With long steps, the short and the long blocks are the same.
  if (is_short && short_.blocks().back().time < kLongRule.block_min) {
    name(now, find_slow(short_, kShortRule), out);
  }
}

Duration StragglerCore::look_after(Duration running) const {
  if (short_.blocks().empty()) {
    return running > kStart ? kLookMax : kLookMin;  // the step time is not known yet
  }
  const WaitBlocks::Block& last = short_.blocks().back();
  return std::clamp<Duration>(last.time / last.count() * kBlockSteps, kLookMin, kLookMax);
}

// -- reports ----------------------------------------------------------------------------------

bool StragglerCore::is_over() const {
  const auto& parts = long_.blocks().back().parts;
  const auto first = parts.find(named_->ranks.front());
  if (since_named_ < kBlocksOver || first == parts.end()) {
    return false;
  }
  const StepSums sums = long_.sums_of(first->second.group, kBlocksOver);
  Duration most = Duration::zero();
  Duration least = Duration::max();
  for (const auto& [waited, rank] : sums.waited) {
    const bool slow = std::ranges::binary_search(named_->ranks, rank);
    (slow ? most : least) = slow ? std::max(most, waited) : std::min(least, waited);
  }
  return least != Duration::max() && share_of(least - most, sums.time) < kOverShare;
}

void StragglerCore::end_named(std::vector<StragglerEffect>& out) {
  if (named_ && is_over()) {
    out.emplace_back(Over{named_->ranks, {}});
    named_.reset();
  }
}

bool StragglerCore::may_name(TimePoint now, const std::vector<int>& ranks) const {
  const Duration pause = ranks == last_named_ ? kSameAgain : kOthersAgain;
  return !last_time_ || now - *last_time_ >= pause;
}

void StragglerCore::name(TimePoint now,
                         std::optional<Slow> found,
                         std::vector<StragglerEffect>& out) {
  if (!found || (named_ && named_->ranks == found->ranks) || !may_name(now, found->ranks)) {
    return;
  }
  last_named_ = found->ranks;
  last_time_ = now;
  since_named_ = 0;
  named_ = std::move(found);
  out.emplace_back(Named{*named_});
}

}  // namespace muster::straggler
