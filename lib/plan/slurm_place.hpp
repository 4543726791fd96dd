// SPDX-License-Identifier: Apache-2.0
// Replaces the Slurm task variables that srun sets for the launcher with the worker's own. A worker
// that inherited the launcher's variables (JAX, Lightning and many scripts read them) would treat
// itself as the only task on its node, in a step that consists of launchers. Pure; called by
// worker_env.
#pragma once

#include "base/environ.hpp"
#include "config/launch_config.hpp"
#include "plan/assignment.hpp"

namespace muster {

// Removes the launcher's task variables, unless the platform started one launcher per worker.
void leave_slurm_place(Environ& environ, const LaunchConfig& config);

// Sets the existing variables to the worker's own values if the job spans the whole step. Otherwise
// removes them.
void take_slurm_place(Environ& environ,
                      const LaunchConfig& config,
                      const Assignment& assignment,
                      int local_rank);

}  // namespace muster
