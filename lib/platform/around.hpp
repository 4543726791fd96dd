// SPDX-License-Identifier: Apache-2.0
// Common parts of the MPI launchers: ranks instead of nodes, and the node list of the surrounding
// scheduler. Pure.
#pragma once

#include "platform/facts.hpp"
#include "platform/platform_plan.hpp"

namespace muster {

struct Ranks {
  Said<int> size;
  Said<int> rank;
  Said<int> local;
  Said<int> here;  // ranks on this node
};

// One launcher per rank; if there are more ranks than nodes, each has one worker.
void add_ranks(const Ranks& ranks, const PlatformFacts& facts, PlatformPlan& plan);

// The nodes of the whole Slurm, PBS, Cobalt, OAR, LSF or SGE job that an MPI launcher runs in.
[[nodiscard]] std::optional<Said<std::vector<std::string>>> machines_around(
    const PlatformFacts& facts);

// Rank 0 hosts the rendezvous. If it runs on another host than the other ranks expect, or its host
// is unknown, sets the plan's problem.
void check_place_of_rank_0(const PlatformFacts& facts,
                           std::string_view starter,
                           PlatformPlan& plan);

}  // namespace muster
