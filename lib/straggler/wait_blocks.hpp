// SPDX-License-Identifier: Apache-2.0
// WaitBlocks: what ranks have waited in each of the last blocks of time. Noise of single steps
// averages out in a block. Part of StragglerCore; pure, value-like.
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

// Of a block, besides its time. Where no steps are told, an operation that ranks waited for counts
// as one.
inline constexpr std::uint64_t kBlockSteps = 5;

// No program makes more in a block, whatever it tells.
inline constexpr std::uint64_t kCountMax = 1'000'000'000;

class WaitBlocks {
 public:
  struct Part {
    int group = 0;  // the lowest of the ranks that it is in operations with, perhaps through others
    Duration waited{};
    std::uint64_t waits = 0;
  };

  struct Block {
    Duration time{};
    std::optional<std::uint64_t> steps{};
    std::map<int, Part> parts{};  // by rank; of those that have called an operation

    // Of the rank that waited most often.
    [[nodiscard]] std::uint64_t waits() const;

    // Steps, or what counts as one.
    [[nodiscard]] std::uint64_t count() const;
  };

  // What the ranks of one group have waited in some blocks together, those who waited least first.
  struct Sums {
    Duration time{};
    std::uint64_t steps = 0;  // in `stepped`, the time of those blocks whose steps are known
    Duration stepped{};
    std::vector<std::pair<Duration, int>> waited{};
  };

  // Of the ranks of a communicator, the one that waited most often in a block.
  struct Busiest {
    std::uint64_t waits = 0;
    Duration own{};  // between its two readings
  };

  // A block has so much time at least; so many of them are kept.
  WaitBlocks(Duration least, std::size_t kept) : least_(least), kept_(kept) {}

  // True: a block has become whole.
  bool looked(TimePoint now, const std::vector<RankWaits>& ranks);

  [[nodiscard]] const std::deque<Block>& blocks() const { return blocks_; }

  // Of the ranks that were in this group in all of the last blocks.
  [[nodiscard]] Sums sums_of(int group, std::size_t blocks) const;

  // Of the time of the last blocks and of the one under way, what each rank has waited.
  [[nodiscard]] std::map<int, double> shares() const;

 private:
  [[nodiscard]] const RankWaits* before(int rank) const;
  [[nodiscard]] std::map<std::string, Busiest> busiest_in(const std::vector<RankWaits>& ranks,
                                                          Duration looked) const;
  [[nodiscard]] Block block_until(TimePoint now, const std::vector<RankWaits>& ranks) const;
  [[nodiscard]] bool is_whole(const Block& block) const;

  Duration least_;
  std::size_t kept_;
  std::optional<TimePoint> begun_{};  // of the block under way
  std::map<int, RankWaits> base_{};   // what was read then
  Block current_{};                   // so far
  std::deque<Block> blocks_{};
};

// Of the whole, 0 where there is none.
[[nodiscard]] double share_of(Duration part, Duration whole);

}  // namespace muster::straggler
