// SPDX-License-Identifier: Apache-2.0
// Where mpirun or mpiexec has started this launcher, its environment says which process of MPI's
// world the launcher is. Its workers are not that process. Called by plan/worker_env. Pure.
#pragma once

#include "base/environ.hpp"

namespace muster {

// Takes away what would make MPI_Init in a worker take the launcher's place: several workers that
// take one place wait for each other for ever, and Hydra's descriptor (PMI_FD) is not passed on. A
// single worker may take the place under Open MPI, which needs no descriptor. What users set, as
// OMPI_MCA_btl, stays.
void leave_mpi_place(Environ& environ, int workers);

}  // namespace muster
