// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/peers.hpp"

#include "apps/muster-bench/child.hpp"

#include <filesystem>

namespace muster::bench {
namespace {

std::string in_folder(const std::string& folder,
                      const std::string& program,
                      const Environ& environ) {
  return folder.empty() ? "" : find_program(folder + "/bin/" + program, environ).value_or("");
}

}  // namespace

Peers find_peers(const Where& where, const Environ& environ) {
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const auto folder = self.parent_path();
  const auto find = [&](const std::string& name) {
    return find_program(name, environ).value_or("");
  };
  const auto ours = [&](const std::string& given, const std::string& name) {
    return find(given.empty() ? (folder.parent_path() / name / name).string() : given);
  };
  Peers peers;
  peers.environ = environ;
  peers.environ.set("OMPI_ALLOW_RUN_AS_ROOT", "1");
  peers.environ.set("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
  peers.self = self.string();
  peers.floor = find((folder / "bench-floor").string());
  peers.ranks = find((folder / "bench-ranks").string());
  peers.ranks_open_mpi = find((folder / "bench-openmpi").string());
  peers.ranks_mpich = find((folder / "bench-mpich").string());
  peers.ranks_gloo = (folder / "gloo.py").string();
  const auto build = folder.parent_path().parent_path();
  peers.simulator = find((build / "tests" / "sim" / "muster-sim").string());
  peers.muster = ours(where.muster, "muster");
  peers.muster_store = ours(where.muster_store, "muster-store");
  peers.hydra = find("mpiexec.hydra");
  peers.open_mpi = find("mpirun.openmpi");
  peers.torchrun = in_folder(where.torch_env, "torchrun", environ);
  peers.torch_python = in_folder(where.torch_env, "python", environ);
  peers.ft_launcher = in_folder(where.ft_env, "ft_launcher", environ);
  peers.redis = find("redis-server");
  peers.tee = find("tee");
  peers.cat = find("cat");
  return peers;
}

}  // namespace muster::bench
