// SPDX-License-Identifier: Apache-2.0
// WaitBlocks: how long each rank has waited in each of the most recent blocks of time. A block
// averages out the noise of individual steps. Part of StragglerCore; pure, value-like.
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

// The minimum number of steps in a block, in addition to its minimum time. If no steps are
// reported, each operation in which ranks waited counts as a step.
inline constexpr std::uint64_t kBlockSteps = 5;

// A sanity limit: no program executes more steps or operations in a block.
inline constexpr std::uint64_t kCountMax = 1'000'000'000;

class WaitBlocks {
 public:
  struct Part {
    int group = 0;  // lowest rank that shares operations with this rank, directly or indirectly
    Duration waited{};
    std::uint64_t waits = 0;
  };

  struct Block {
    Duration time{};
    std::optional<std::uint64_t> steps{};
    std::map<int, Part> parts{};  // by rank; only ranks that have called an operation

    // The number of waits of the rank that waited most often.
    [[nodiscard]] std::uint64_t waits() const;

    // The number of steps, or of operations that count as steps.
    [[nodiscard]] std::uint64_t count() const;
  };

  // The total waits of the ranks in one group over several blocks, in ascending order.
  struct Sums {
    Duration time{};
    std::uint64_t steps = 0;  // number of steps in the time `stepped`
    Duration stepped{};
    std::vector<std::pair<Duration, int>> waited{};
  };

  // The rank of a communicator that waited most often in a block.
  struct Busiest {
    std::uint64_t waits = 0;
    Duration own{};  // time between the rank's two readings
  };

  // `least` is the minimum time of a block, `kept` the number of blocks to keep.
  WaitBlocks(Duration least, std::size_t kept) : least_(least), kept_(kept) {}

  // Returns true if a block was completed.
  bool looked(TimePoint now, const std::vector<RankWaits>& ranks);

  [[nodiscard]] const std::deque<Block>& blocks() const { return blocks_; }

  // Includes only ranks that were in this group in all of these blocks.
  [[nodiscard]] Sums sums_of(int group, std::size_t blocks) const;

  // The fraction of time that each rank spent waiting in the last blocks and the current block.
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
  std::map<int, RankWaits> base_{};   // the readings at the start of the current block
  Block current_{};                   // the current block so far
  std::deque<Block> blocks_{};
};

// `part` divided by `whole`, or 0 if `whole` is 0.
[[nodiscard]] double share_of(Duration part, Duration whole);

}  // namespace muster::straggler
