// SPDX-License-Identifier: Apache-2.0
// Duration and TimePoint of the steady clock, and durations as typed by users ("90", "1m30s").
#pragma once

#include "base/error.hpp"

#include <chrono>
#include <string>
#include <string_view>

namespace muster {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

// Parses a number of seconds with an optional fraction, or numbers with units: "30", "0.5",
// "250ms", "1m30s", "2h". The result is never negative. Error: usage.
[[nodiscard]] Result<Duration> parse_duration(std::string_view text);

// Formats a duration in its shortest form, such as "1.5s", "250ms" or "40us". For messages.
[[nodiscard]] std::string describe(Duration duration);

}  // namespace muster
