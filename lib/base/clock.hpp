// SPDX-License-Identifier: Apache-2.0
// The only place that asks what time it is. Cores get times as arguments and never come here.
#pragma once

#include "base/time.hpp"

#include <string>

namespace muster {

// Steady, for deadlines and durations.
[[nodiscard]] TimePoint steady_now();

// What this thread has computed so far: grows by what work costs, also where it must wait for a
// CPU.
[[nodiscard]] Duration thread_cpu_time();

// Unix time in seconds with a fraction: only for messages and files, never for decisions.
[[nodiscard]] double wall_now_seconds();

// "2026-11-21_10:11:55", local time of this machine.
[[nodiscard]] std::string describe_wall_time(double unix_seconds);

}  // namespace muster
