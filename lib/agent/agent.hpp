// SPDX-License-Identifier: Apache-2.0
// The agent: runs the job's workers on this node, from opening the first store to writing the
// report. It contains the supervisor, an event loop, a timer, the link to the guard, a store for
// each round, the runner of real processes, and, in multi-node jobs, a SharedRounds. Called once,
// by main, in the process that run_guarded created.
#pragma once

#include "agent/agent_setup.hpp"
#include "base/fd.hpp"
#include "process/guard/lease_timer.hpp"
#include "rendezvous/node/node_sockets.hpp"
#include "rendezvous/node/round_record.hpp"

#include <memory>
#include <optional>

namespace muster {

// State that the agent shares with its guard in a multi-node job. main creates it before it calls
// run_guarded.
struct SharedWithGuard {
  NodeSockets sockets;
  const LeaseTimer* lease = nullptr;
  std::shared_ptr<const RoundRecord> record{};
};

// Returns the launcher's exit code after all messages have been printed. `means` must be set if and
// only if many_nodes(setup.config) is true.
[[nodiscard]] int run_agent(const AgentSetup& setup,
                            UniqueFd link,
                            std::optional<SharedWithGuard> means = std::nullopt);

}  // namespace muster
