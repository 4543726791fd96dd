// SPDX-License-Identifier: Apache-2.0
// Which nodes are in one of two rounds of a job only. Pure.
#pragma once

#include "agent/events/round_event.hpp"
#include "rendezvous/wire/round_info.hpp"

namespace muster {

// Nothing has changed for a node that knows of no round before.
[[nodiscard]] event::MembershipChange membership_change(const Round& before, const Round& now);

}  // namespace muster
