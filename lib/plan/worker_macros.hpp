// SPDX-License-Identifier: Apache-2.0
// The macros in a worker's arguments: ${local_rank}, ${rank}, ${node_rank}, ${world_size},
// ${leader_addr}, and for each port that was reserved ${port0} …, ${leader_port0} …. Pure.
#pragma once

#include "config/launch_config.hpp"
#include "plan/assignment.hpp"
#include "plan/macros.hpp"

namespace muster {

// What is not known yet (in --explain: port 0, an empty address) is no macro, so that it stays as
// it was typed. Called as torchrun, there are only ${local_rank} and those for what was reserved:
// torchrun leaves all others alone.
[[nodiscard]] Macros worker_macros(const LaunchConfig& config,
                                   const Assignment& assignment,
                                   int local_rank);

}  // namespace muster
