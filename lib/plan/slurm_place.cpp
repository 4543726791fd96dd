// SPDX-License-Identifier: Apache-2.0
#include "plan/slurm_place.hpp"

#include <array>
#include <string>
#include <string_view>

namespace muster {
namespace {

constexpr std::array<std::string_view, 6> kPlace{"SLURM_GTIDS",
                                                 "SLURM_LOCALID",
                                                 "SLURM_NPROCS",
                                                 "SLURM_NTASKS",
                                                 "SLURM_PROCID",
                                                 "SLURM_STEP_NUM_TASKS"};

bool is_whole_step(const LaunchConfig& config) {
  return config.platform.name == "slurm" && config.platform.nodes;
}

}  // namespace

void leave_slurm_place(Environ& environ, const LaunchConfig& config) {
  if (config.task) {
    return;
  }
  for (const std::string_view name : kPlace) {
    environ.erase(name);
  }
}

void take_slurm_place(Environ& environ,
                      const LaunchConfig& config,
                      const Assignment& assignment,
                      int local_rank) {
  const bool is_step = environ.get("SLURM_PROCID") && is_whole_step(config);
  leave_slurm_place(environ, config);
  if (!is_step || config.task) {
    return;
  }
  const std::string size = std::to_string(assignment.world_size);
  environ.set("SLURM_PROCID", std::to_string(assignment.rank_first + local_rank));
  environ.set("SLURM_LOCALID", std::to_string(local_rank));
  environ.set("SLURM_NTASKS", size);
  environ.set("SLURM_NPROCS", size);
  environ.set("SLURM_STEP_NUM_TASKS", size);
}

}  // namespace muster
