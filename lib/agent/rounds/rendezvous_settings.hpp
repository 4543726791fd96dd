// SPDX-License-Identifier: Apache-2.0
// Converts the configuration to the settings of this node's rendezvous. Called once, by the agent.
// Pure, except for use_token.
#pragma once

#include "agent/agent_setup.hpp"
#include "rendezvous/node/rendezvous_node.hpp"

namespace muster {

[[nodiscard]] RendezvousSettings rendezvous_settings(const AgentSetup& setup);

// Reads the token file, or creates it in the home directory, and derives the keys. `settings` must
// already contain the credentials, because nodes with MUNGE share a secret. Errors: those of
// read_token; usage, if the job requires a secret and has none.

[[nodiscard]] Result<void> use_token(const LaunchConfig& config, RendezvousSettings& settings);

}  // namespace muster
