// SPDX-License-Identifier: Apache-2.0
// The environment of one worker: the launcher's environment plus the variables that PyTorch and its
// users read. The variables with which an MPI launcher or Slurm identifies the launcher itself are
// removed or replaced (plan/mpi_place, plan/slurm_place). Pure.
#pragma once

#include "base/environ.hpp"
#include "base/error.hpp"
#include "config/launch_config.hpp"
#include "plan/assignment.hpp"

#include <string>
#include <vector>

namespace muster {

// How a worker contacts its launcher, and where it stores files for the launcher.
struct WorkerContact {
  std::string error_file;
  std::string agent_socket;  // in the abstract namespace; empty without a socket
  std::string flights = {};  // directory for flight recorder dumps; empty to request none
  // The named pipe for requests of torch.distributed.elastic.timer; empty if muster reads none.
  std::string timer_file = {};
  std::string kineto_folder = {};  // for KINETO_IPC_SOCKET_DIR; empty to set nothing
};

// Error: usage, if fewer GPUs are listed than --virtual-local-rank needs.
[[nodiscard]] Result<Environ> worker_env(const LaunchConfig& config,
                                         const Environ& environ,
                                         const Assignment& assignment,
                                         int local_rank,
                                         const WorkerContact& contact);

// The environment that all workers on this node share: the launcher's plus defaults for unset
// variables.
[[nodiscard]] Environ node_env(const LaunchConfig& config, const Environ& environ);

}  // namespace muster
