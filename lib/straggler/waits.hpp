// SPDX-License-Identifier: Apache-2.0
// How long ranks have waited for each other, as their flight recorders have it. Read by
// wait_reader, judged by straggler_core. Values; what workers write is hostile: any number may
// stand in them.
#pragma once

#include "base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::straggler {

// Of one communicator, since it was made.
struct GroupWaits {
  std::string group{};  // its name and epoch: the same on all its ranks
  std::uint64_t operations = 0;
  std::uint64_t waits = 0;  // operations that held up their callers
  Duration waited{};        // all of these together
  bool operator==(const GroupWaits&) const = default;
};

struct RankWaits {
  int rank = 0;
  // When it was read, by the clock of its node, since its workers were started; 0 throughout: when
  // it is looked at.
  Duration at{};
  std::optional<std::uint64_t> step{};  // the last one that it has told
  std::vector<GroupWaits> groups{};
  bool operator==(const RankWaits&) const = default;
};

}  // namespace muster::straggler
