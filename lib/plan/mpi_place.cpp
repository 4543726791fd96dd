// SPDX-License-Identifier: Apache-2.0
#include "plan/mpi_place.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace muster {
namespace {

// Open MPI 4 and 5. mpirun sets OMPI_MCA_ess to "^singleton", which prevents a program without a
// rank from starting.
constexpr std::array<std::string_view, 11> kOpenMpi{"OMPI_APP_CTX_",
                                                    "OMPI_COMM_WORLD_",
                                                    "OMPI_FILE_LOCATION",
                                                    "OMPI_FIRST_RANKS",
                                                    "OMPI_MCA_ess",
                                                    "OMPI_MCA_orte_",
                                                    "OMPI_MCA_pmix",
                                                    "OMPI_NUM_APP_CTX",
                                                    "OMPI_UNIVERSE_SIZE",
                                                    "PMIX_",
                                                    "PRTE_LAUNCHED"};

// MPICH, Intel MPI, and Slurm's srun --mpi=pmi2.
constexpr std::array<std::string_view, 3> kPmi{"HYDI_CONTROL_FD", "MPI_LOCAL", "PMI_"};

// Flux, HPE PALS, IBM's jsrun, MVAPICH2.
constexpr std::array<std::string_view, 6> kTasks{"FLUX_TASK_LOCAL_ID",
                                                 "FLUX_TASK_RANK",
                                                 "JSM_NAMESPACE_",
                                                 "MV2_COMM_WORLD_",
                                                 "PALS_LOCAL_RANKID",
                                                 "PALS_RANKID"};

// The user sets this one. It begins like those that mpirun sets.
constexpr std::string_view kSessionFolder = "OMPI_MCA_orte_tmpdir_base";

template <std::size_t N>
void erase_all(Environ& environ, const std::array<std::string_view, N>& prefixes) {
  std::vector<std::string> names;
  for (const auto& [name, value] : environ.all()) {
    const auto begins = [&](auto prefix) { return name.starts_with(prefix); };
    if (name != kSessionFolder && std::ranges::any_of(prefixes, begins)) {
      names.push_back(name);
    }
  }
  for (const std::string& name : names) {
    environ.erase(name);
  }
}

}  // namespace

void leave_mpi_place(Environ& environ, int workers) {
  if (workers > 1) {
    erase_all(environ, kOpenMpi);
    erase_all(environ, kTasks);
  }
  if (workers > 1 || environ.get("PMI_FD")) {
    erase_all(environ, kPmi);
  }
}

}  // namespace muster
