// SPDX-License-Identifier: Apache-2.0
// muster-gpu-check STEP: one rank of one step of scripts/gpu-check. "probe" prints what is
// available, and exits with 77 if there is no GPU or no NCCL.
#include "nccl/gpu/rank.hpp"

#include <fmt/format.h>

#include <map>
#include <string>

namespace {

using muster::gpu_check::Rank;
using muster::gpu_check::row;
namespace nccl = muster::collective::nccl;

constexpr int kNoGpu = 77;

int probe() {
  const auto here = nccl::this_process();
  const auto driver = nccl::load_cuda(nccl::cuda_places(here));
  const auto library = nccl::load_nccl(nccl::nccl_places(here));
  if (!driver || !library) {
    fmt::print(stderr, "{}\n", (driver ? library.error() : driver.error()).text);
    return kNoGpu;
  }
  const auto device = nccl::GpuDevice::open(*driver, 0);
  if (!device) {
    fmt::print(stderr, "{}\n", device.error().text);
    return kNoGpu;
  }
  row((*device)->description(), true, describe(**library, **driver));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string step = argc == 2 ? argv[1] : "";
  if (step == "probe") {
    return probe();
  }
  namespace checks = muster::gpu_check;
  const std::map<std::string, void (*)(Rank&)> steps = {{"operations", checks::check_operations},
                                                        {"split", checks::check_split},
                                                        {"kill", checks::check_kill},
                                                        {"stop", checks::check_stop},
                                                        {"absent", checks::check_absent},
                                                        {"public", checks::check_public},
                                                        {"inside", checks::check_inside},
                                                        {"overhead", checks::check_overhead},
                                                        {"casts", checks::check_casts},
                                                        {"overlap", checks::check_overlap}};
  const auto found = steps.find(step);
  if (found == steps.end()) {
    fmt::print(stderr, "muster-gpu-check: no step '{}' - scripts/gpu-check runs them\n", step);
    return 2;
  }
  Rank rank;
  found->second(rank);
  return 0;
}
