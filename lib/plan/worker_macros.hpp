// SPDX-License-Identifier: Apache-2.0
// The macros in a worker's arguments: ${local_rank}, ${rank}, ${node_rank}, ${world_size},
// ${leader_addr}, and for each reserved port ${port0} …, ${leader_port0} …. Pure.
#pragma once

#include "config/launch_config.hpp"
#include "plan/assignment.hpp"
#include "plan/macros.hpp"

namespace muster {

// A value that is not known yet (in --explain: port 0, an empty address) defines no macro, so the
// text stays as typed. When called as torchrun, only ${local_rank} and the macros of reserved ports
// exist, because torchrun leaves all others unchanged.
[[nodiscard]] Macros worker_macros(const LaunchConfig& config,
                                   const Assignment& assignment,
                                   int local_rank);

}  // namespace muster
