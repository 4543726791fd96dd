// SPDX-License-Identifier: Apache-2.0
// StragglerCore: decides which ranks are slow, based on how long ranks wait for each other. The
// rank that the others wait for does not wait itself, so only total waiting times are compared and
// clocks need not agree. Time is an argument, effects are data, no I/O. Stepped by
// agent/straggler_watch; value-like.
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

// Ranks are compared over blocks of time. A rule defines a block's minimum time and how many blocks
// to keep.
struct SlowRule {
  Duration block_min{};
  std::size_t kept = 0;
  // Report ranks that slowed down the others in at least this many of the kept blocks, by more than
  // this share of the block's time.
  std::size_t slow = 0;
  double share = 0;
  // In addition, the average slowdown must be at least this many standard deviations. This excludes
  // ranks that are slow only at times, for example because they take turns on an overloaded
  // machine.
  double deviations = 0;
  // If true, a block's time covers only complete operations. If a block has few operations,
  // operations that are cut off at the block's ends would add noise.
  bool whole_turns = false;
};

inline constexpr SlowRule kLongRule{std::chrono::milliseconds(900), 10, 8, 0.10, 5.0, false};

// For short steps: reports ranks sooner if they are consistently much slower.
inline constexpr SlowRule kShortRule{std::chrono::milliseconds(90), 11, 11, 0.25, 15.0, true};

// How often to check the ranks. The actual interval is the time that one block of steps takes,
// within these limits.
inline constexpr Duration kLookMin = std::chrono::milliseconds(100);
inline constexpr Duration kLookMax = std::chrono::seconds(1);
// Most programs have created their communicators by this time. After it, programs without
// communicators are checked only every kLookMax.
inline constexpr Duration kStart = std::chrono::seconds(10);

// Ranks are no longer slow if they cost less than this share of the last long blocks, taken
// together.
inline constexpr std::size_t kBlocksOver = 5;
inline constexpr double kOverShare = 0.05;

// Minimum time between two reports: about the same ranks, and about different ranks.
inline constexpr Duration kSameAgain = std::chrono::minutes(10);
inline constexpr Duration kOthersAgain = std::chrono::minutes(1);

using StragglerEffect = std::variant<Named, Over>;

class StragglerCore {
 public:
  // Call when the workers of an attempt have started, or when no worker is running any more.
  // Discards all earlier observations.
  void begin();

  void looked(TimePoint now,
              const std::vector<RankWaits>& ranks,
              std::vector<StragglerEffect>& out);

  // The time until the next check. `running` is the time since the workers were started.
  [[nodiscard]] Duration look_after(Duration running) const;

  // The fraction of time that each rank spent waiting in the recent blocks.
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
  std::size_t since_named_ = 0;  // number of long blocks since named_ was set
  std::vector<int> last_named_{};
  std::optional<TimePoint> last_time_{};
};

}  // namespace muster::straggler
