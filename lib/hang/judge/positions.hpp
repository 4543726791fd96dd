// SPDX-License-Identifier: Apache-2.0
// Converts flight recorders of the collective library to positions of ranks. Pure.
#pragma once

#include "collective/recorder/flight_recorder.hpp"
#include "hang/evidence.hpp"

#include <cstdint>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace muster::hang {

// Per position: the newest completed operations, and the oldest pending ones.
inline constexpr std::size_t kRecentMax = 64;
inline constexpr std::size_t kPendingMax = 64;

// By the pids of the processes that wrote the logs: for each log the position of the host's
// operations, then that of operations on GPUs. `now` is the steady clock's, in ns.
[[nodiscard]] std::vector<std::pair<pid_t, Position>> positions_of(
    const std::vector<collective::FlightLog>& logs, std::uint64_t now);

}  // namespace muster::hang
