// SPDX-License-Identifier: Apache-2.0
// Opens the file in which this node records the rounds that it accepts, if it has a directory for
// such files. Called once, by main, before the guard and the agent split, so that both hold the
// lock.
#pragma once

#include "agent/agent_setup.hpp"
#include "rendezvous/node/round_record.hpp"

#include <memory>

namespace muster {

// Null without --state-dir. If the directory cannot be used, rounds are not recorded.
[[nodiscard]] std::shared_ptr<const RoundRecord> open_record(const AgentSetup& setup);

}  // namespace muster
