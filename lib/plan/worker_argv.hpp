// SPDX-License-Identifier: Apache-2.0
// The command line of one worker. Pure.
#pragma once

#include "config/launch_config.hpp"
#include "plan/assignment.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// [python -u [-m debugpy …] [-m]] program [--local_rank=N] args…. Expands ${local_rank} and the
// other macros of worker_macros.hpp everywhere except in `python`. When called as torchrun, also
// expands $local_rank and replaces $$ by $. With a debug port, the Python program runs under
// debugpy.
[[nodiscard]] std::vector<std::string> worker_argv(const LaunchConfig& config,
                                                   const Assignment& assignment,
                                                   int local_rank,
                                                   std::uint16_t debug_port = 0);

// The command line of the zygote that workers are forked from; `source` is its program. Contains
// the arguments that all workers share: no --local_rank=N, and macros are not expanded. Requires
// config.warm.
[[nodiscard]] std::vector<std::string> zygote_argv(const LaunchConfig& config,
                                                   std::string_view source);

}  // namespace muster
