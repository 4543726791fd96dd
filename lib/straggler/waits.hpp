// SPDX-License-Identifier: Apache-2.0
// How long ranks have waited for each other, according to their flight recorders. wait_reader reads
// the values and straggler_core judges them. Workers are untrusted, so any number may occur.
// Values.
#pragma once

#include "base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::straggler {

// The waits in one communicator, since it was created.
struct GroupWaits {
  std::string group{};  // the communicator's name and epoch, the same on all of its ranks
  std::uint64_t operations = 0;
  std::uint64_t waits = 0;  // operations that blocked their callers
  Duration waited{};        // total time of the operations that blocked
  bool operator==(const GroupWaits&) const = default;
};

struct RankWaits {
  int rank = 0;
  // The time at which the rank's counters were read, on its node's clock, relative to the start of
  // the workers. If the value is always 0, the time of the check is used.
  Duration at{};
  std::optional<std::uint64_t> step{};  // the last reported step
  std::vector<GroupWaits> groups{};
  bool operator==(const RankWaits&) const = default;
};

}  // namespace muster::straggler
