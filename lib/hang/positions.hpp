// SPDX-License-Identifier: Apache-2.0
// Flight recorders of the collective library as positions of ranks. Pure.
#pragma once

#include "collective/recorder/flight_recorder.hpp"
#include "hang/evidence.hpp"

#include <cstdint>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace muster::hang {

// Completed operations that are shown.
inline constexpr std::size_t kRecentMax = 64;

// By the pids of those who wrote the logs. `now` is the steady clock's, in ns.
[[nodiscard]] std::vector<std::pair<pid_t, Position>> positions_of(
    const std::vector<collective::FlightLog>& logs, std::uint64_t now);

}  // namespace muster::hang
