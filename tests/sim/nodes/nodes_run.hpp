// SPDX-License-Identifier: Apache-2.0
// One simulated run of many nodes, from its seed to its verdict: a time of trouble, in which only
// safety is asked for, a calm in which the nodes have to find together within a stated time, and
// the end of the job. Pure function of the seed and the options.
#pragma once

#include "sim/nodes/options.hpp"
#include "sim/nodes/trace.hpp"

#include <cstdint>
#include <string>

namespace muster::sim {

struct NodesReport {
  std::string problem;  // empty: all rules held
  std::uint64_t trace_hash = 0;
  std::uint64_t events = 0;
  std::uint64_t rounds = 0;
  std::uint64_t messages = 0;
  bool closed = false;     // the job ended by itself, before the calm
  bool converged = false;  // a round had to run after the calm, and did
};

// How long after the last fault the nodes may take. See nodes_run.cpp for what it is made of.
[[nodiscard]] Duration convergence_time(const NodesOptions& options);

[[nodiscard]] NodesReport run_nodes(const NodesOptions& options, std::uint64_t seed, Trace& trace);

}  // namespace muster::sim
