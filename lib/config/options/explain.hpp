// SPDX-License-Identifier: Apache-2.0
// What --explain=config prints: each setting, its value, where it came from. Pure.
#pragma once

#include "config/launch_config.hpp"

#include <string>

namespace muster {

// One setting a line, "name  value  origin", aligned; secrets masked.
[[nodiscard]] std::string describe_config(const LaunchConfig& config);

}  // namespace muster
