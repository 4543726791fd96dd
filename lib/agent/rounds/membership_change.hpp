// SPDX-License-Identifier: Apache-2.0
// The nodes that are in only one of two rounds. Pure.
#pragma once

#include "agent/events/round_event.hpp"
#include "rendezvous/wire/round_info.hpp"

namespace muster {

// Empty if this node was in no previous round.
[[nodiscard]] event::MembershipChange membership_change(const Round& before, const Round& now);

}  // namespace muster
