// SPDX-License-Identifier: Apache-2.0
// The environment of one worker: ours, plus the variables that PyTorch and its users read, one row
// for each. Only an MPI launcher's are taken away (plan/mpi_place). Pure.
#pragma once

#include "base/environ.hpp"
#include "base/error.hpp"
#include "config/launch_config.hpp"
#include "plan/assignment.hpp"

#include <string>
#include <vector>

namespace muster {

// Where a worker reaches its launcher, or leaves something for it.
struct WorkerContact {
  std::string error_file;
  std::string agent_socket;  // in the abstract namespace; empty: there is none
  std::string flights = {};  // folder for PyTorch's flight recorders; empty: nobody asks them
};

// Error: usage (fewer GPUs listed than --virtual-local-rank needs).
[[nodiscard]] Result<Environ> worker_env(const LaunchConfig& config,
                                         const Environ& environ,
                                         const Assignment& assignment,
                                         int local_rank,
                                         const WorkerContact& contact);

// What all workers of this node have in common: ours, and the defaults for what nobody has set.
[[nodiscard]] Environ node_env(const LaunchConfig& config, const Environ& environ);

}  // namespace muster
