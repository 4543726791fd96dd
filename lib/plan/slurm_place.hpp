// SPDX-License-Identifier: Apache-2.0
// Which process of a Slurm step a worker is. srun tells the launcher its own place, and a worker
// that inherits it (JAX, Lightning and many scripts read it) would believe that it is the only task
// of a step of launchers. Pure; called by worker_env.
#pragma once

#include "base/environ.hpp"
#include "config/launch_config.hpp"
#include "plan/assignment.hpp"

namespace muster {

// Removes the launcher's place. A launcher for each worker has that of its worker, which stays.
void leave_slurm_place(Environ& environ, const LaunchConfig& config);

// Sets the worker's own place, in the variables that are there, if the job is the whole step; else
// the worker gets none.
void take_slurm_place(Environ& environ,
                      const LaunchConfig& config,
                      const Assignment& assignment,
                      int local_rank);

}  // namespace muster
