// SPDX-License-Identifier: Apache-2.0
// The rule that keeps two halves of a cut network from both running (rendezvous/README.md, "The
// rule"). Pure.
#pragma once

#include "base/time.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace muster {

enum class Standing : std::uint8_t {
  here,     // follows us
  heir,     // an agent follows us that was started again with this member's record
  gone,     // proven: its agent and its workers are gone
  missing,  // neither
};

// Members in the order of their group ranks. Enough are here: more than half of all, or exactly
// half with the first member among them, or nobody is missing. A gone member stays in the count of
// all: it may have taken part in a later round that only the missing ones know of. Heirs count, but
// they are no quorum by themselves unless all members are here: others may have found all their
// predecessors gone, and have gone on.
[[nodiscard]] bool is_quorum(const std::vector<Standing>& members);

// One member's standing for quorum_time: `heard` is when it was last known to follow us.
struct MemberEvidence {
  bool gone = false;
  std::optional<TimePoint> heard{};
  bool heir = false;
};

// The latest moment for which a quorum is known to have followed us: the members heard at that time
// or later are a quorum. None: there is no such moment.
[[nodiscard]] std::optional<TimePoint> quorum_time(const std::vector<MemberEvidence>& members);

}  // namespace muster
