// SPDX-License-Identifier: Apache-2.0
// The command line of one worker. Pure.
#pragma once

#include "config/launch_config.hpp"

#include <string>
#include <vector>

namespace muster {

// [python -u [-m]] program [--local_rank=N] args…, with ${local_rank} replaced in all but python.
[[nodiscard]] std::vector<std::string> worker_argv(const LaunchConfig& config, int local_rank);

}  // namespace muster
