// SPDX-License-Identifier: Apache-2.0
// RestartDelay: how long to wait before all workers restart. Without --restart-delay, the first
// restart waits for nothing. If that did not help, something that needs time may be the reason, for
// example a server that restarts, so the delay grows until the workers make progress. Used by
// DelayedRounds. Pure; value.
#pragma once

#include "agent/failures/failure.hpp"
#include "base/time.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace muster {

inline constexpr Duration kRestartDelayFirst = std::chrono::seconds(1);

// Workers that report no steps made progress if they ran this long.
inline constexpr Duration kRunTimeOfProgress = std::chrono::seconds(60);

struct RestartDelaySettings {
  std::optional<Duration> fixed;  // --restart-delay
  Duration longest{};             // otherwise
};

class RestartDelay {
 public:
  explicit RestartDelay(RestartDelaySettings settings) : settings_(settings) {}

  // Call for the first failure of each round.
  void note(const WorkerFailure& failure) {
    rounds_without_progress_ = made_progress(failure) ? 0 : rounds_without_progress_ + 1;
    best_step_ = std::max(best_step_, failure.step);
    is_first_ = false;
  }

  // The time to wait after the last failure.
  [[nodiscard]] Duration next() const {
    if (settings_.fixed) {
      return *settings_.fixed;
    }
    Duration delay{};
    for (int i = 0; i < rounds_without_progress_ && delay < settings_.longest; ++i) {
      delay = i == 0 ? kRestartDelayFirst : 2 * delay;
    }
    return std::min(delay, settings_.longest);
  }

  [[nodiscard]] bool grows() const { return !settings_.fixed; }

 private:
  // A round that failed makes progress if it gets further than the rounds before it.
  [[nodiscard]] bool made_progress(const WorkerFailure& failure) const {
    return is_first_ || failure.step > best_step_ ||
           (!failure.step && failure.run_time >= kRunTimeOfProgress);
  }

  RestartDelaySettings settings_;
  std::optional<std::uint64_t> best_step_;  // that workers of this node have reported
  bool is_first_ = true;
  int rounds_without_progress_ = 0;  // the last ones
};

}  // namespace muster
