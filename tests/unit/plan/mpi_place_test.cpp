// SPDX-License-Identifier: Apache-2.0
// The variables that workers keep from the environment that an MPI launcher gave us.
#include "plan/mpi_place.hpp"

#include "plan/worker_env.hpp"
#include "support/catch.hpp"

using namespace muster;

namespace {

Environ environ_of(std::initializer_list<std::string_view> names) {
  Environ out;
  for (const std::string_view name : names) {
    out.set(name, "1");
  }
  return out;
}

Environ left(Environ environ, int workers) {
  leave_mpi_place(environ, workers);
  return environ;
}

const Environ kOpenMpi = environ_of({"OMPI_COMM_WORLD_RANK",
                                     "OMPI_COMM_WORLD_SIZE",
                                     "OMPI_MCA_ess",
                                     "OMPI_MCA_ess_base_jobid",
                                     "OMPI_MCA_orte_hnp_uri",
                                     "OMPI_UNIVERSE_SIZE",
                                     "PMIX_NAMESPACE",
                                     "PMIX_SERVER_URI2"});
const Environ kHydra = environ_of(
    {"PMI_FD", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "HYDI_CONTROL_FD"});

}  // namespace

TEST_CASE("mpi place: several workers cannot share one rank") {
  CHECK(left(kOpenMpi, 2) == Environ());
  CHECK(left(kHydra, 2) == Environ());
  CHECK(left(environ_of({"PMI_PORT", "PMI_ID"}), 2) == Environ());
  CHECK(left(environ_of({"FLUX_TASK_RANK", "JSM_NAMESPACE_RANK", "PALS_RANKID"}), 2) == Environ());
}

TEST_CASE("mpi place: a single worker takes over the rank if no descriptor is needed") {
  CHECK(left(kOpenMpi, 1) == kOpenMpi);
  CHECK(left(environ_of({"PMI_PORT", "PMI_ID"}), 1) == environ_of({"PMI_PORT", "PMI_ID"}));
  CHECK(left(kHydra, 1) == Environ());
}

TEST_CASE("mpi place: keeps the user's own variables") {
  const Environ users = environ_of({"OMPI_ALLOW_RUN_AS_ROOT",
                                    "OMPI_MCA_btl",
                                    "OMPI_MCA_orte_tmpdir_base",
                                    "OMPI_MCA_schizo",
                                    "MPI_HOME",
                                    "MPICH_GPU_SUPPORT_ENABLED",
                                    "PMIX",
                                    "SLURM_PROCID"});
  CHECK(left(users, 8) == users);
}

TEST_CASE("mpi place: a worker's environment contains none") {
  LaunchConfig config;
  config.nproc = 2;
  const auto env = worker_env(
      config, kOpenMpi, assign_alone(2, 0, Endpoint{"127.0.0.1", 4711}), 1, {"error.json", {}});
  REQUIRE(env);
  CHECK_FALSE(env->get("OMPI_COMM_WORLD_RANK"));
  CHECK(env->get("RANK") == "1");
}
