// SPDX-License-Identifier: Apache-2.0
// The communicator's entry point to the NCCL backend: finds the libraries, checks the settings,
// starts the backend.
#include "collective/nccl/nccl_transport.hpp"

#include "base/environ.hpp"
#include "collective/nccl/nccl_communicator.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include <unistd.h>

namespace muster::collective {
namespace nccl {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// NCCL's configuration files, in its own search order.
std::vector<std::string> conf_files(const Environ& environ) {
  const auto named = environ.get("NCCL_CONF_FILE");
  const auto user = named ? *named : environ.get("HOME").value_or("") + "/.nccl.conf";
  return {read_text(user), read_text("/etc/nccl.conf")};
}

std::string this_host() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

bool is_set(const Environ& environ, const char* variable) {
  const auto value = environ.get(variable);
  return value && !value->empty() && *value != "0";
}

using Disagreement = decltype(TransportContext::disagreement);

// With checks enabled, NcclCheck already compares collectives and uses the same operation number
// for its own exchange. So compare only transfers here.
Disagreement of_transfers(const Disagreement& all) {
  return [all](const Request& mine) {
    return all && is_transfer(mine.kind) ? all(mine) : std::nullopt;
  };
}

}  // namespace
}  // namespace nccl

Result<std::unique_ptr<Transport>> make_nccl_transport(const TransportContext& context) {
  nccl::Surroundings here = nccl::this_process();
  if (context.environ != nullptr) {
    here.environ = *context.environ;
  }
  if (nccl::asks_for_blocking(here.environ.get("NCCL_COMM_BLOCKING"),
                              nccl::conf_files(here.environ))) {
    return failure(
        Errc::unsupported,
        "NCCL_COMM_BLOCKING is set (environment or nccl.conf), but a blocking communicator "
        "cannot be aborted when a rank dies. Unset it");
  }
  auto driver = nccl::load_cuda(nccl::cuda_places(here));
  MUSTER_RETURN_IF_ERROR(driver);
  auto library = nccl::load_nccl(nccl::nccl_places(here));
  MUSTER_RETURN_IF_ERROR(library);
  auto device = nccl::GpuDevice::open(*driver, context.device);
  MUSTER_RETURN_IF_ERROR(device);
  const nccl::Speaker speaker{context.name, context.rank, context.size, context.epoch};
  nccl::NcclOptions options;
  options.init_timeout = context.init_timeout;
  options.register_buffers = nccl::is_set(here.environ, "MUSTER_COLLECTIVE_NCCL_REGISTER");
  options.check_calls = nccl::is_set(here.environ, "MUSTER_COLLECTIVE_NCCL_CHECK");
  return nccl::NcclCommunicator::create(
      {*library,
       *device,
       speaker,
       context.peers,
       context.positions,
       options.check_calls ? nccl::of_transfers(context.disagreement) : context.disagreement},
      {context.store, context.prefix, speaker, nccl::this_host(), options.init_timeout},
      options,
      context.progress);
}

}  // namespace muster::collective
