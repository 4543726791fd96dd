// SPDX-License-Identifier: Apache-2.0
// StragglerCore: decides which ranks are slow, from how long ranks wait for each other. The rank
// that the others wait for does not wait itself, so only sums of waiting are compared, not clocks.
// Time is an argument, effects are data, no I/O. Stepped by agent/straggler_watch; value-like.
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

// Ranks are compared over blocks of time. A rule has a block's minimum time and the number to keep.
struct SlowRule {
  Duration block_min{};
  std::size_t kept = 0;
  // Report ranks that slowed the others in this many of the kept blocks, in each by more than this
  // share of its time,
  std::size_t slow = 0;
  double share = 0;
  // and on average by this many standard deviations of the blocks. This excludes ranks that are
  // slow only at times, such as those that take turns on an overloaded machine.
  double deviations = 0;
  // Measure a block's time by the operations that were waited for in it. If there are few, those
  // cut by its ends would be noise.
  bool whole_turns = false;
};

inline constexpr SlowRule kLongRule{std::chrono::milliseconds(900), 10, 8, 0.10, 5.0, false};

// For short steps: reports ranks sooner that are much and steadily slower.
inline constexpr SlowRule kShortRule{std::chrono::milliseconds(90), 11, 11, 0.25, 15.0, true};

// How often to check the ranks: after as many steps as make a block.
inline constexpr Duration kLookMin = std::chrono::milliseconds(100);
inline constexpr Duration kLookMax = std::chrono::seconds(1);
// By then most programs have created their communicators; those that have not are checked seldom.
inline constexpr Duration kStart = std::chrono::seconds(10);

// No longer slow: less than this share over this many last long blocks together.
inline constexpr std::size_t kBlocksOver = 5;
inline constexpr double kOverShare = 0.05;

// Report the same ranks again, and other ranks, after these times at the earliest.
inline constexpr Duration kSameAgain = std::chrono::minutes(10);
inline constexpr Duration kOthersAgain = std::chrono::minutes(1);

using StragglerEffect = std::variant<Named, Over>;

class StragglerCore {
 public:
  // The workers of an attempt are running, or none is any more. Forgets everything seen before.
  void begin();

  void looked(TimePoint now,
              const std::vector<RankWaits>& ranks,
              std::vector<StragglerEffect>& out);

  // When to check the ranks again. `running`: time since they were started.
  [[nodiscard]] Duration look_after(Duration running) const;

  // The share of the time of the last blocks that each rank has waited.
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
