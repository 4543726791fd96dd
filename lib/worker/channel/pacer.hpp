// SPDX-License-Identifier: Apache-2.0
// Pacer: a rate limiter with an initial burst. Pure; time is an argument.
#pragma once

#include "base/time.hpp"

#include <algorithm>
#include <optional>

namespace muster::channel {

class Pacer {
 public:
  Pacer(int burst, int per_second)
      : interval_(std::chrono::nanoseconds(std::chrono::seconds(1)) / per_second),
        ahead_(interval_ * burst) {}

  // Empty if the call may proceed; it then counts toward the limit. Otherwise the time at which to
  // try again.
  [[nodiscard]] std::optional<TimePoint> pass(TimePoint now) {
    const TimePoint after = std::max(paid_until_, now) + interval_;
    if (after > now + ahead_) {
      return after - ahead_;
    }
    paid_until_ = after;
    return std::nullopt;
  }

 private:
  Duration interval_;
  Duration ahead_;
  TimePoint paid_until_{};
};

}  // namespace muster::channel
