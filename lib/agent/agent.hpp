// SPDX-License-Identifier: Apache-2.0
// The agent: runs the job's workers on this node, from the first store to the report. The shell
// around the supervisor: one loop, one timer, the link to the guard, a store for each round, the
// real processes; in jobs of many nodes a SharedRounds with the others. Called once, by main, in
// the process that run_guarded made.
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
  std::string version;  // of muster: all nodes of a job have the same
  std::string random;   // 32 hexadecimal digits, for the run folder's name and this node's id
  bool stderr_is_terminal = false;
  bool stdin_is_terminal = false;
  bool stderr_is_public = false;  // a file that other users can read
  bool stdout_is_torn = false;    // as in PlanContext,
  bool one_sink = false;          // and so this
  std::size_t stderr_columns = 80;
};

// What a job of many nodes shares with its guard: made by main before run_guarded.
struct SharedWithGuard {
  NodeSockets sockets;
  const LeaseTimer* lease = nullptr;
  std::shared_ptr<const RoundRecord> record{};
};

// Returns the launcher's exit code; everything that it has to say was said. `means` where
// many_nodes(setup.config).
[[nodiscard]] int run_agent(const AgentSetup& setup,
                            UniqueFd link,
                            std::optional<SharedWithGuard> means = std::nullopt);

}  // namespace muster
