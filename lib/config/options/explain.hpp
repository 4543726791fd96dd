// SPDX-License-Identifier: Apache-2.0
// The output of --explain=config and --explain=all: settings with their values and origins. Pure.
#pragma once

#include "config/launch_config.hpp"

#include <string>

namespace muster {

enum class Explained {
  changed,  // without settings that have their default
  all,
};

// One aligned line per setting, "name  value  origin". Secrets are masked.
[[nodiscard]] std::string describe_config(const LaunchConfig& config, Explained what);

}  // namespace muster
