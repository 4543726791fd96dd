// SPDX-License-Identifier: Apache-2.0
// From the configuration to the settings that the rendezvous of this node starts with. Called
// once, by the agent. Pure.
#pragma once

#include "agent/agent.hpp"
#include "rendezvous/node/rendezvous_node.hpp"

namespace muster {

[[nodiscard]] RendezvousSettings rendezvous_settings(const AgentSetup& setup);

}  // namespace muster
