// SPDX-License-Identifier: Apache-2.0
// Measures how late slow ranks arrive at individual operations on this node. If step times vary,
// ranks wait for each other even without slow ranks, so the slow ranks cost less than the total
// waiting times suggest. Pure.
#pragma once

#include "collective/recorder/flight_recorder.hpp"
#include "straggler/slow.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <sys/types.h>

namespace muster::straggler {

// The maximum number of recent operations to read per rank: the number that a recorder keeps.
inline constexpr std::uint64_t kRecordsMax = 2048;

// Slow ranks wait less than the others. Returns the share of this difference that the slow ranks
// cause, or none if the recorded operations do not reveal it. `ranks` maps the pids of the
// processes that wrote the logs to ranks.
[[nodiscard]] std::optional<double> own_share(const std::vector<collective::FlightLog>& logs,
                                              const std::map<pid_t, int>& ranks,
                                              const std::vector<int>& slow);

}  // namespace muster::straggler
