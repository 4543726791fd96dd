// SPDX-License-Identifier: Apache-2.0
// From the configuration to the settings that the rendezvous of this node starts with. Called
// once, by the agent. Pure, but for use_token.
#pragma once

#include "agent/agent_setup.hpp"
#include "rendezvous/node/rendezvous_node.hpp"

namespace muster {

[[nodiscard]] RendezvousSettings rendezvous_settings(const AgentSetup& setup);

// Reads the token's file, or makes it in the home, and adds the keys made of it. `settings` has the
// credentials already: nodes with MUNGE have a secret in common. Errors: those of read_token; usage
// if there is no secret and the job must have one.
[[nodiscard]] Result<void> use_token(const LaunchConfig& config, RendezvousSettings& settings);

}  // namespace muster
