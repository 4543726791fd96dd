// SPDX-License-Identifier: Apache-2.0
// The events and effects of one node's rendezvous that concern the replacement of single ranks
// (--restart=rank). Values.
#pragma once

#include "base/time.hpp"
#include "rendezvous/wire/mend_messages.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// -- events, from the agent --------------------------------------------------------------------

// Ranks on this node are to be replaced, or this node cannot take part in the
// current mend (`message.obstacle`). The core sets the rounds and `message.cause.age`. Answered
// with RunMend or RefuseMend, unless the round ends or `message.obstacle` is set.
struct LackingHere {
  Lacking message;
  TimePoint seen_at{};  // time of the worker's exit
};

// All local workers have the job's state in this epoch.
struct MendedHere {
  std::uint64_t epoch = 0;
};

// -- effects, to the agent ---------------------------------------------------------------------

// The round continues under a new epoch: these ranks, on this or other nodes, are being replaced.
struct RunMend {
  Mends mends;
  std::uint64_t number = 0;  // of our request if this answers it, else 0
  std::vector<std::int32_t> ranks;
  std::int32_t cause = 0;  // the rank whose failure is the reason
  std::string reason;
};

// The answer to LackingHere if its ranks cannot be replaced. Report the failure.
struct RefuseMend {
  std::uint64_t number = 0;
  std::string reason;  // empty if the job does not restart at all
};

}  // namespace muster
