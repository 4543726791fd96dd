// SPDX-License-Identifier: Apache-2.0
// What the MPI launchers have in common: ranks in place of machines, and the machines of the
// scheduler around them. Pure.
#pragma once

#include "platform/facts.hpp"
#include "platform/platform_plan.hpp"

namespace muster {

struct Ranks {
  Said<int> size;
  Said<int> rank;
  Said<int> local;
  Said<int> here;  // ranks on this machine
};

// One launcher for each rank; where there are more ranks than machines, one worker for each.
void add_ranks(const Ranks& ranks, const PlatformFacts& facts, PlatformPlan& plan);

// The machines of the whole Slurm, PBS, Cobalt, OAR, LSF or SGE job that an MPI launcher runs in.
[[nodiscard]] std::optional<Said<std::vector<std::string>>> machines_around(
    const PlatformFacts& facts);

// Rank 0 hosts. Where it is on another machine than the others will look for it, or nobody can
// know where it is, that becomes the plan's problem.
void check_place_of_rank_0(const PlatformFacts& facts,
                           std::string_view starter,
                           PlatformPlan& plan);

}  // namespace muster
