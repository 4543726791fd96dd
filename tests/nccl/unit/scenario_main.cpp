// SPDX-License-Identifier: Apache-2.0
// muster-nccl-scenario NAME [PLANTED ERROR]: see scenario.hpp. Used by planted_test.cpp.
#include "collective/nccl/cast_kernels.hpp"
#include "collective/nccl/nccl_messages.hpp"
#include "collective/nccl/nccl_transport.hpp"
#include "collective/nccl/planted.hpp"
#include "nccl/unit/scenario.hpp"

#include <cstdio>
#include <string_view>

#include <sys/resource.h>

namespace {

using namespace muster::collective;

// The public interface in a process without fakes.
int without_fakes() {
  const muster::Environ environ;
  TransportContext context;
  context.device = 0;
  context.environ = &environ;
  const auto made = make_nccl_transport(context);
  if (!made) {
    std::fprintf(stderr, "%s: %s\n", name_of(made.error().code).data(), made.error().text.c_str());
  }
  return made ? 1 : 0;
}

// Starts a communicator of a real library on a machine without a driver.
int real_nccl(const char* path) {
  const auto library = nccl::load_nccl({{nccl::Place::Kind::named, path}});
  if (!library) {
    std::fprintf(stderr, "%s\n", library.error().text.c_str());
    return 1;
  }
  const auto& call = (*library)->call;
  ncclUniqueId id = {};
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  call.get_unique_id(&id);
  const auto result = call.init_rank(&comm, 1, id, 0, &config);
  const auto error = nccl::nccl_error(
      {"world", 0, 1, 0}, {.doing = "starting", .result = result}, **library, nccl::CudaDriver{});
  std::fprintf(stderr, "%s\n", error.text.c_str());
  return result == ncclUnhandledCudaError && comm == nullptr ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (name == "kernels") {
    return std::fputs(nccl::cast_kernels().c_str(), stdout) < 0 ? 1 : 0;
  }
  if (name == "no fakes") {
    return without_fakes();
  }
  if (name == "real NCCL" && argc > 2) {
    return real_nccl(argv[2]);
  }
  if (argc > 2) {
    nccl::planted_error = argv[2];
  }
  for (const auto* scenarios :
       {&muster::testing::back_end_scenarios(), &muster::testing::ending_scenarios()}) {
    const auto found = scenarios->find(std::string(name));
    if (found != scenarios->end()) {
      return found->second();
    }
  }
  const auto& misuses = muster::testing::misuse_scenarios();
  if (const auto found = misuses.find(std::string(name)); found != misuses.end()) {
    found->second.run();
    return 0;
  }
  std::fprintf(stderr, "muster-nccl-scenario: no such scenario\n");
  return 2;
}
