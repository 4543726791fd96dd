// SPDX-License-Identifier: Apache-2.0
// The only code that reads a clock. Cores receive times as arguments and never call these
// functions.
#pragma once

#include "base/time.hpp"

#include <string>

namespace muster {

// The steady clock, for deadlines and durations.
[[nodiscard]] TimePoint steady_now();

// CPU time of this thread so far. Unlike elapsed time, it excludes time spent waiting for a CPU.
[[nodiscard]] Duration thread_cpu_time();

// Wall-clock time: Unix time in seconds with a fraction. Only for messages and files, never for
// decisions.
[[nodiscard]] double wall_now_seconds();

// Formats a time as "2026-11-21_10:11:55", in this machine's time zone.
[[nodiscard]] std::string describe_wall_time(double unix_seconds);

}  // namespace muster
