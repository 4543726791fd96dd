// SPDX-License-Identifier: Apache-2.0
// The two meanings of a worker's local rank. They differ from the worker's index in this launcher
// if the platform has started one launcher per worker, or if each worker sees only one GPU. Used by
// the other files in plan/. Pure.
#pragma once

#include "config/launch_config.hpp"

namespace muster {

// The index on the host, as used in labels, file names and output options.
[[nodiscard]] inline int place_on_machine(const LaunchConfig& config, int index) {
  return config.task ? config.task->local_rank : index;
}

// LOCAL_RANK, which programs use to choose their GPU.
[[nodiscard]] inline int local_rank_of(const LaunchConfig& config, int index) {
  const bool sees_one = config.virtual_local_rank || (config.task && config.task->has_own_gpu);
  return sees_one ? 0 : place_on_machine(config, index);
}

}  // namespace muster
