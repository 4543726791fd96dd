// SPDX-License-Identifier: Apache-2.0
// How late slow ranks arrive at single operations on this node. If ranks vary from step to step,
// the others would wait for each other even without the slow ranks, so these cost less than the
// sums of waiting suggest. Pure.
#pragma once

#include "collective/recorder/flight_recorder.hpp"
#include "straggler/slow.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <sys/types.h>

namespace muster::straggler {

// The newest operations to read per rank: as many as a recorder keeps.
inline constexpr std::uint64_t kRecordsMax = 2048;

// The share of the difference in waiting, between other and slow ranks, that the slow ranks cause.
// None: the operations do not show it. `ranks`: by the pids of the processes that wrote the logs.
[[nodiscard]] std::optional<double> own_share(const std::vector<collective::FlightLog>& logs,
                                              const std::map<pid_t, int>& ranks,
                                              const std::vector<int>& slow);

}  // namespace muster::straggler
