// SPDX-License-Identifier: Apache-2.0
// How the rendezvous ends for a node: the last effect of its core (node_effects.hpp). Values.
#pragma once

#include "base/error.hpp"
#include "rendezvous/wire/coordinator_messages.hpp"

#include <string>

namespace muster {

// All of our workers have exited and the job no longer needs this node: exit with code 0.
struct EndFinished {};

struct EndClosed {
  Close close;  // the job is over
};

// This node cannot join the job: it was refused, or found no other node in time.
struct EndFailed {
  Error error;
};

// LeaveAsked has been carried out: no other node needs us.
struct EndLeft {};

// A spare takes our place. This node may join again as a new node.
struct EndReplaced {
  std::string reason;
};

}  // namespace muster
