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

// Of one position: the newest completed operations, the oldest that have not completed.
inline constexpr std::size_t kRecentMax = 64;
inline constexpr std::size_t kPendingMax = 64;

// By the pids of those who wrote the logs; of each the position of the host's operations, then
// that of those on GPUs. `now` is the steady clock's, in ns.
[[nodiscard]] std::vector<std::pair<pid_t, Position>> positions_of(
    const std::vector<collective::FlightLog>& logs, std::uint64_t now);

}  // namespace muster::hang
