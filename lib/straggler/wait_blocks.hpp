// SPDX-License-Identifier: Apache-2.0
// WaitBlocks: how long ranks have waited in each of the last blocks of time. A block averages out
// the noise of single steps. Part of StragglerCore; pure, value-like.
#pragma once

#include "base/time.hpp"
#include "straggler/waits.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster::straggler {

// The minimum steps of a block, besides its time. Without reported steps, an operation that ranks
// waited for counts as one.
inline constexpr std::uint64_t kBlockSteps = 5;

// No program does more in a block, whatever it reports.
inline constexpr std::uint64_t kCountMax = 1'000'000'000;

class WaitBlocks {
 public:
  struct Part {
    int group = 0;  // the lowest rank among those it shares operations with, directly or not
    Duration waited{};
    std::uint64_t waits = 0;
  };

  struct Block {
    Duration time{};
    std::optional<std::uint64_t> steps{};
    std::map<int, Part> parts{};  // by rank, for ranks that have called an operation

    // The waits of the rank that waited most often.
    [[nodiscard]] std::uint64_t waits() const;

    // Steps, or what counts as steps.
    [[nodiscard]] std::uint64_t count() const;
  };

  // Total waits of the ranks in one group over some blocks, in ascending order.
  struct Sums {
    Duration time{};
    std::uint64_t steps = 0;  // within `stepped`, the time of the blocks with known steps
    Duration stepped{};
    std::vector<std::pair<Duration, int>> waited{};
  };

  // The rank of a communicator that waited most often in a block.
  struct Busiest {
    std::uint64_t waits = 0;
    Duration own{};  // between its two readings
  };

  // The minimum time of a block, and the number of blocks to keep.
  WaitBlocks(Duration least, std::size_t kept) : least_(least), kept_(kept) {}

  // True: a block has been completed.
  bool looked(TimePoint now, const std::vector<RankWaits>& ranks);

  [[nodiscard]] const std::deque<Block>& blocks() const { return blocks_; }

  // Only for ranks that were in this group in all of these last blocks.
  [[nodiscard]] Sums sums_of(int group, std::size_t blocks) const;

  // The share of the time of the last blocks and the current one that each rank has waited.
  [[nodiscard]] std::map<int, double> shares() const;

 private:
  [[nodiscard]] const RankWaits* before(int rank) const;
  [[nodiscard]] std::map<std::string, Busiest> busiest_in(const std::vector<RankWaits>& ranks,
                                                          Duration looked) const;
  [[nodiscard]] Block block_until(TimePoint now, const std::vector<RankWaits>& ranks) const;
  [[nodiscard]] bool is_whole(const Block& block) const;

  Duration least_;
  std::size_t kept_;
  std::optional<TimePoint> begun_{};  // start of the current block
  std::map<int, RankWaits> base_{};   // the readings at that time
  Block current_{};                   // the current block so far
  std::deque<Block> blocks_{};
};

// The share of the whole, 0 if the whole is 0.
[[nodiscard]] double share_of(Duration part, Duration whole);

}  // namespace muster::straggler
