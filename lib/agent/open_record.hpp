// SPDX-License-Identifier: Apache-2.0
// Opens the file in which this node records the rounds that it accepts, if it has a folder for it.
// Called once, by main, before guard and agent part: both hold the lock.
#pragma once

#include "agent/agent.hpp"
#include "rendezvous/node/round_record.hpp"

#include <memory>

namespace muster {

// Null: this node remembers nothing when it is started again.
[[nodiscard]] std::shared_ptr<const RoundRecord> open_record(const AgentSetup& setup);

}  // namespace muster
