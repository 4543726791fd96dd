// SPDX-License-Identifier: Apache-2.0
// The command line of one worker. Pure.
#pragma once

#include "config/launch_config.hpp"
#include "plan/assignment.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster {

// [python -u [-m]] program [--local_rank=N] args…, with ${local_rank} and the other macros of
// worker_macros.hpp expanded everywhere except in python. When called as torchrun, $local_rank is
// expanded too, and $$ becomes $.
[[nodiscard]] std::vector<std::string> worker_argv(const LaunchConfig& config,
                                                   const Assignment& assignment,
                                                   int local_rank);

// The command line of the zygote that workers are forked from; `source` is its program. It has the
// arguments common to all workers, that is without --local_rank=N and with unexpanded macros.
// Requires config.warm.
[[nodiscard]] std::vector<std::string> zygote_argv(const LaunchConfig& config,
                                                   std::string_view source);

}  // namespace muster
