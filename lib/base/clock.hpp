// SPDX-License-Identifier: Apache-2.0
// The only place that reads a clock. Cores get times as arguments and never call this.
#pragma once

#include "base/time.hpp"

#include <string>

namespace muster {

// Steady, for deadlines and durations.
[[nodiscard]] TimePoint steady_now();

// CPU time of this thread so far: measures the cost of work even when the thread waits for a CPU.
[[nodiscard]] Duration thread_cpu_time();

// Unix time in seconds with a fraction; only for messages and files, never for decisions.
[[nodiscard]] double wall_now_seconds();

// "2026-11-21_10:11:55", local time of this machine.
[[nodiscard]] std::string describe_wall_time(double unix_seconds);

}  // namespace muster
