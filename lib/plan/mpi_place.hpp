// SPDX-License-Identifier: Apache-2.0
// If mpirun or mpiexec started this launcher, the environment identifies one process of the MPI
// job: the launcher, not its workers. Called by plan/worker_env. Pure.
#pragma once

#include "base/environ.hpp"

namespace muster {

// Removes the variables that would make MPI_Init in a worker use the launcher's rank. Several
// workers with the same rank would wait for each other forever, and workers do not inherit the
// descriptor that Hydra needs (PMI_FD). With Open MPI, which needs no descriptor, a single worker
// keeps the launcher's rank. The user's own settings, such as OMPI_MCA_btl, stay.
void leave_mpi_place(Environ& environ, int workers);

}  // namespace muster
