// SPDX-License-Identifier: Apache-2.0
// How late slow ranks come to single operations of this node. Where ranks vary from step to step,
// the others would wait for each other without the slow ones too: what these cost is less than the
// sums of waiting tell. Pure.
#pragma once

#include "collective/recorder/flight_recorder.hpp"
#include "straggler/slow.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <sys/types.h>

namespace muster::straggler {

// Of each rank so many of its newest operations are looked at: as many as a recorder keeps.
inline constexpr std::uint64_t kRecordsMax = 2048;

// Of the difference in waiting between others and slow ranks, the share that is the latter's doing.
// None: the operations do not tell. `ranks`: by the pids of those who wrote the logs.
[[nodiscard]] std::optional<double> own_share(const std::vector<collective::FlightLog>& logs,
                                              const std::map<pid_t, int>& ranks,
                                              const std::vector<int>& slow);

}  // namespace muster::straggler
