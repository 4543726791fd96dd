// SPDX-License-Identifier: Apache-2.0
// Converts the collective library's flight recorders to the positions of ranks. Pure.
#pragma once

#include "collective/recorder/flight_recorder.hpp"
#include "hang/evidence.hpp"

#include <cstdint>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace muster::hang {

// Limits per position: the newest completed operations, and the oldest pending ones.
inline constexpr std::size_t kRecentMax = 64;
inline constexpr std::size_t kPendingMax = 64;

// Returns two positions for each log, with the pid of the process that wrote the log: one for the
// host operations, then one for the GPU operations. `now` is the steady clock in ns.
[[nodiscard]] std::vector<std::pair<pid_t, Position>> positions_of(
    const std::vector<collective::FlightLog>& logs, std::uint64_t now);

}  // namespace muster::hang
