// SPDX-License-Identifier: Apache-2.0
// How long ranks have waited for each other, according to their flight recorders. Read by
// wait_reader, judged by straggler_core. Values; workers are untrusted, so any number may occur.
#pragma once

#include "base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::straggler {

// For one communicator, since it was created.
struct GroupWaits {
  std::string group{};  // its name and epoch: the same on all its ranks
  std::uint64_t operations = 0;
  std::uint64_t waits = 0;  // operations that blocked their callers
  Duration waited{};        // total time of these
  bool operator==(const GroupWaits&) const = default;
};

struct RankWaits {
  int rank = 0;
  // When it was read, by its node's clock, since its workers were started; if it is always 0, the
  // time of the check applies.
  Duration at{};
  std::optional<std::uint64_t> step{};  // the last reported step
  std::vector<GroupWaits> groups{};
  bool operator==(const RankWaits&) const = default;
};

}  // namespace muster::straggler
