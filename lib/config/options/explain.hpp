// SPDX-License-Identifier: Apache-2.0
// The output of --explain=config: each setting with its value and origin. Pure.
#pragma once

#include "config/launch_config.hpp"

#include <string>

namespace muster {

// One aligned line per setting, "name  value  origin". Secrets are masked.
[[nodiscard]] std::string describe_config(const LaunchConfig& config);

}  // namespace muster
