// SPDX-License-Identifier: Apache-2.0
// If mpirun or mpiexec has started this launcher, its environment identifies one process of the MPI
// job: the launcher. Its workers are not that process. Called by plan/worker_env. Pure.
#pragma once

#include "base/environ.hpp"

namespace muster {

// Removes the variables that would make MPI_Init in a worker take the launcher's rank. Several
// workers with the same rank would wait for each other forever, and Hydra's descriptor (PMI_FD) is
// not inherited. A single worker may take the rank under Open MPI, which needs no descriptor. The
// user's own settings, such as OMPI_MCA_btl, stay.
void leave_mpi_place(Environ& environ, int workers);

}  // namespace muster
