// SPDX-License-Identifier: Apache-2.0
// The Slurm task that a worker is. srun sets the launcher's own task variables. A worker that
// inherits them (JAX, Lightning and many scripts read them) would believe that it is the only task
// in a step that consists of launchers. Pure; called by worker_env.
#pragma once

#include "base/environ.hpp"
#include "config/launch_config.hpp"
#include "plan/assignment.hpp"

namespace muster {

// Removes the launcher's task variables. If a launcher is started per worker, they stay.
void leave_slurm_place(Environ& environ, const LaunchConfig& config);

// Sets the worker's own values in the existing variables if the job spans the whole step; otherwise
// removes them.
void take_slurm_place(Environ& environ,
                      const LaunchConfig& config,
                      const Assignment& assignment,
                      int local_rank);

}  // namespace muster
