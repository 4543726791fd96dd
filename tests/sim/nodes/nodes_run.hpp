// SPDX-License-Identifier: Apache-2.0
// One simulated multi-node run, from its seed to its verdict: a period of faults, which checks only
// safety; a calm period, in which the nodes must form a round within a given time; and the end of
// the job. Pure function of the seed and the options.
#pragma once

#include "sim/nodes/options.hpp"
#include "sim/nodes/trace.hpp"

#include <cstdint>
#include <string>

namespace muster::sim {

struct NodesReport {
  std::string problem;  // empty if all rules held
  std::uint64_t trace_hash = 0;
  std::uint64_t events = 0;
  std::uint64_t rounds = 0;
  std::uint64_t messages = 0;
  bool closed = false;     // the job ended on its own before the calm period
  bool converged = false;  // a round had to run after the calm period, and did
};

// Time that the nodes may take after the last fault. See nodes_run.cpp for its terms.
[[nodiscard]] Duration convergence_time(const NodesOptions& options);

[[nodiscard]] NodesReport run_nodes(const NodesOptions& options, std::uint64_t seed, Trace& trace);

}  // namespace muster::sim
