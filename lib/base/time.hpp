// SPDX-License-Identifier: Apache-2.0
// Duration and TimePoint of the steady clock, and durations as written by users ("90", "1m30s").
#pragma once

#include "base/error.hpp"

#include <chrono>
#include <string>
#include <string_view>

namespace muster {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

// Seconds with an optional fraction, or a number with a unit: "30", "0.5", "250ms", "1m30s", "2h".
// Never negative. Error: usage.
[[nodiscard]] Result<Duration> parse_duration(std::string_view text);

// The shortest of "1.5s", "250ms", "40us"; for messages.
[[nodiscard]] std::string describe(Duration duration);

}  // namespace muster
