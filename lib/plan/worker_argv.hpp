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
// worker_macros.hpp replaced in all but python; called as torchrun also $local_rank, and $$ becomes
// $.
[[nodiscard]] std::vector<std::string> worker_argv(const LaunchConfig& config,
                                                   const Assignment& assignment,
                                                   int local_rank);

// The command line of the zygote that the workers are forked from: `source` is its program. The
// program's arguments are those of all workers, so without --local_rank=N and with macros as they
// were typed. Where config.warm has a value.
[[nodiscard]] std::vector<std::string> zygote_argv(const LaunchConfig& config,
                                                   std::string_view source);

}  // namespace muster
