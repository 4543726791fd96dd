// SPDX-License-Identifier: Apache-2.0
// The two meanings of a worker's local rank. They differ from its index below this launcher where
// the platform has started a launcher for each worker, and where each worker sees one GPU only.
// Called by plan's other files. Pure.
#pragma once

#include "config/launch_config.hpp"

namespace muster {

// The place on the machine: what labels, files and options of output mean.
[[nodiscard]] inline int place_on_machine(const LaunchConfig& config, int index) {
  return config.task ? config.task->local_rank : index;
}

// LOCAL_RANK, by which programs choose their GPU.
[[nodiscard]] inline int local_rank_of(const LaunchConfig& config, int index) {
  const bool sees_one = config.virtual_local_rank || (config.task && config.task->has_own_gpu);
  return sees_one ? 0 : place_on_machine(config, index);
}

}  // namespace muster
