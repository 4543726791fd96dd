// SPDX-License-Identifier: Apache-2.0
// Code shared by the MPI launchers. They report ranks instead of nodes, and the node list comes
// from the surrounding scheduler. Pure.
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

// Adds the launcher's rank and the number of ranks to the plan. If several ranks share a node, each
// launcher has one worker.
void add_ranks(const Ranks& ranks, const PlatformFacts& facts, PlatformPlan& plan);

// The nodes of the whole Slurm, PBS, Cobalt, OAR, LSF or SGE job that an MPI launcher runs in.
[[nodiscard]] std::optional<Said<std::vector<std::string>>> machines_around(
    const PlatformFacts& facts);

// Rank 0 hosts the rendezvous. Sets the plan's problem if rank 0 is not on the host where the other
// ranks expect it, or if the host of rank 0 is unknown.
void check_place_of_rank_0(const PlatformFacts& facts,
                           std::string_view starter,
                           PlatformPlan& plan);

}  // namespace muster
