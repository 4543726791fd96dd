// SPDX-License-Identifier: Apache-2.0
// The agent: runs the job's workers on this node, from the first store to the report. It is the
// shell around the supervisor: one loop, one timer, the link to the guard, a store for each round,
// real processes, and a SharedRounds in multi-node jobs. Called once, by main, in the process that
// run_guarded created.
#pragma once

#include "base/environ.hpp"
#include "base/fd.hpp"
#include "config/launch_config.hpp"
#include "process/lease_timer.hpp"
#include "rendezvous/node/node_sockets.hpp"
#include "rendezvous/node/round_record.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace muster {

struct AgentSetup {
  LaunchConfig config;
  Environ environ;
  std::string hostname;
  std::string version;  // of muster; the same on all nodes of a job
  std::string random;   // 32 hexadecimal digits, for the run directory's name and this node's id
  bool stderr_is_terminal = false;
  bool stdin_is_terminal = false;
  bool stderr_is_public = false;  // stderr is a file that other users can read
  bool stdout_is_torn = false;    // as in PlanContext
  bool one_sink = false;          // as in PlanContext
  std::size_t stderr_columns = 80;
};

// State that a multi-node job shares with its guard. main creates it before run_guarded.
struct SharedWithGuard {
  NodeSockets sockets;
  const LeaseTimer* lease = nullptr;
  std::shared_ptr<const RoundRecord> record{};
};

// Returns the launcher's exit code after all messages have been printed. `means` is set if
// many_nodes(setup.config).
[[nodiscard]] int run_agent(const AgentSetup& setup,
                            UniqueFd link,
                            std::optional<SharedWithGuard> means = std::nullopt);

}  // namespace muster
