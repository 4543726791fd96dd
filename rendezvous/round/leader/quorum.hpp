// SPDX-License-Identifier: Apache-2.0
// The rule that lets at most one side of a partitioned network run (rendezvous/README.md, "The
// rule"). Pure.
#pragma once

#include "base/time.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace muster {

enum class Standing : std::uint8_t {
  here,     // follows us
  heir,     // a restarted agent that has this member's record follows us
  gone,     // proven dead, with its workers
  missing,  // neither following us nor proven dead
};

// Members in group rank order. A quorum is more than half of them, exactly half including the first
// member, or all that are not dead if none is missing. A dead member stays in the total count,
// because it may have been a member of a later round that only the missing members know. Heirs
// count, but heirs alone are a quorum only if all members are present, because other nodes may have
// found all of the heirs' predecessors dead and continued.
[[nodiscard]] bool is_quorum(const std::vector<Standing>& members);

// The standing of one member for quorum_time. `heard` is the last time at which it is known to have
// followed us.
struct MemberEvidence {
  bool gone = false;
  std::optional<TimePoint> heard{};
  bool heir = false;
};

// The latest time at which a quorum is known to have followed us: the members heard then or later
// are a quorum. nullopt if there is no such time.
[[nodiscard]] std::optional<TimePoint> quorum_time(const std::vector<MemberEvidence>& members);

}  // namespace muster
