// SPDX-License-Identifier: Apache-2.0
// Creates the effect that sends a message on a link. Used by all cores in this directory.
#pragma once

#include "rendezvous/round/node_effects.hpp"

#include <memory>
#include <utility>

namespace muster {

inline void send_to(LinkId link, RoundMessage message, NodeEffects& out) {
  out.emplace_back(SendMessage{link, std::make_shared<const RoundMessage>(std::move(message))});
}

}  // namespace muster
