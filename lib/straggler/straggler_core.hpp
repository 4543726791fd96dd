// SPDX-License-Identifier: Apache-2.0
// StragglerCore: decides from how long ranks wait for each other which of them are slow. The one
// for which the others wait does not wait itself: so no clocks are compared, only sums of waiting.
// Time is an argument, effects are data, no I/O. Stepped by agent/watch/straggler_watch;
// value-like.
#pragma once

#include "base/time.hpp"
#include "straggler/slow.hpp"
#include "straggler/wait_blocks.hpp"
#include "straggler/waits.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <variant>
#include <vector>

namespace muster::straggler {

// Ranks are compared over blocks of time; `share` of it, and whose rule it is, by how many blocks.
struct SlowRule {
  Duration block_min{};
  std::size_t kept = 0;
  // Named where they held up the others in so many of the last blocks, in each by more than this
  // share of its time.
  std::size_t slow = 0;
  double share = 0;
  // And on average by so many standard deviations of the blocks: who is slow now and then, as ranks
  // of an overloaded machine are in turns, is not.
  double deviations = 0;
  // The time of a block is that of the operations that were waited for in it: where there are few,
  // those that its ends cut would be noise.
  bool whole_turns = false;
};

inline constexpr SlowRule kLongRule{std::chrono::milliseconds(900), 10, 8, 0.10, 5.0, false};

// Where steps are short: who is slower by much, and steadily, is named sooner.
inline constexpr SlowRule kShortRule{std::chrono::milliseconds(90), 11, 11, 0.25, 15.0, true};

// How often ranks are looked at: as many steps as make a block lie between two looks.
inline constexpr Duration kLookMin = std::chrono::milliseconds(100);
inline constexpr Duration kLookMax = std::chrono::seconds(1);
// Most programs have made their communicators by then: who has not is looked at seldom.
inline constexpr Duration kStart = std::chrono::seconds(10);

// No longer slow: in so many last long blocks together less than this share.
inline constexpr std::size_t kBlocksOver = 5;
inline constexpr double kOverShare = 0.05;

// The same ranks are named again, others are named after this time, at the earliest.
inline constexpr Duration kSameAgain = std::chrono::minutes(10);
inline constexpr Duration kOthersAgain = std::chrono::minutes(1);

using StragglerEffect = std::variant<Named, Over>;

class StragglerCore {
 public:
  // The workers of an attempt run; or none does any more. What was seen before is forgotten.
  void begin();

  void looked(TimePoint now,
              const std::vector<RankWaits>& ranks,
              std::vector<StragglerEffect>& out);

  // After so long the ranks are to be looked at again. `running`: since they were started.
  [[nodiscard]] Duration look_after(Duration running) const;

  // Of the time of the last blocks, what each rank has waited.
  [[nodiscard]] std::map<int, double> shares() const { return long_.shares(); }

  [[nodiscard]] const std::optional<Slow>& named() const { return named_; }

 private:
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] bool may_name(TimePoint now, const std::vector<int>& ranks) const;
  void end_named(std::vector<StragglerEffect>& out);
  void name(TimePoint now, std::optional<Slow> found, std::vector<StragglerEffect>& out);

  WaitBlocks long_{kLongRule.block_min, kLongRule.kept};
  WaitBlocks short_{kShortRule.block_min, kShortRule.kept};
  std::optional<Slow> named_{};
  std::size_t since_named_ = 0;  // long blocks
  std::vector<int> last_named_{};
  std::optional<TimePoint> last_time_{};
};

}  // namespace muster::straggler
