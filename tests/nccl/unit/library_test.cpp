// SPDX-License-Identifier: Apache-2.0
// The real libraries, if they are installed: without a GPU they can be loaded, queried and made to
// fail. Also the error messages if something is missing.
#include "base/environ.hpp"
#include "collective/nccl/nccl_transport.hpp"
#include "nccl/unit/fakes.hpp"
#include "nccl/unit/run_scenario.hpp"
#include "support/catch.hpp"

#include <cstdlib>
#include <filesystem>

namespace muster::testing {
namespace {

using collective::Errc;

std::vector<std::string> real_libraries() {
  std::vector<std::string> found;
  const auto add = [&](const std::filesystem::path& path) {
    if (std::filesystem::exists(path)) {
      found.push_back(path.string());
    }
  };
  add("/usr/local/cuda/lib64/libnccl.so.2");
  if (found.empty()) {
    add("/usr/local/cuda/lib/libnccl.so.2");
  }
  const char* home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe)
  std::error_code none;
  for (const auto& venv : std::filesystem::directory_iterator(
           std::string(home == nullptr ? "" : home) + "/.cache/muster", none)) {
    for (const auto& python : std::filesystem::directory_iterator(venv.path() / "lib", none)) {
      add(python.path() / "site-packages/nvidia/nccl/lib/libnccl.so.2");
    }
  }
  return found;
}

// Whether NVIDIA's driver is installed. Does not use dlopen, which would find the fake here.
bool has_a_gpu() {
  return std::filesystem::exists("/dev/nvidiactl");
}

TEST_CASE("each real libnccl can be loaded, reports its version and creates an id, without a GPU") {
  const auto libraries = real_libraries();
  if (libraries.empty()) {
    WARN("skipped: libnccl.so.2 is not installed");
  }
  for (const auto& path : libraries) {
    CAPTURE(path);
    const auto library = nccl::load_nccl({{nccl::Place::Kind::named, path}});
    REQUIRE(library);
    CHECK((*library)->version >= 21800);
    CHECK(nccl::describe_nccl_version((*library)->version).starts_with("2."));
    ncclUniqueId id = {};
    CHECK((*library)->call.get_unique_id(&id) == ncclSuccess);
    CHECK(std::string((*library)->call.get_error_string(ncclInProgress)) ==
          "NCCL operation in progress");
  }
}

TEST_CASE("a real NCCL that finds no driver is an error, not a crash") {
  if (has_a_gpu()) {
    return;
  }
  for (const auto& path : real_libraries()) {
    // In a separate process, because this one would mistake the fake driver for the real one.
    const auto ended = run_scenario({"real NCCL", path});
    CAPTURE(path, ended.output);
    CHECK(ended.exit_code() == 0);
    CHECK(
        ended.output.find("rank 0 of 1, 'world', epoch 0: starting failed: unhandled cuda error") !=
        std::string::npos);
    CHECK(ended.output.find("CUDA driver version is insufficient") != std::string::npos);
    CHECK(ended.output.find(path) != std::string::npos);
  }
}

TEST_CASE("the error names what is missing: the driver, NCCL, a function, a device") {
  const auto driver = nccl::load_cuda({{nccl::Place::Kind::linker, "libno-cuda.so.1"}});
  REQUIRE_FALSE(driver);
  CHECK(driver.error().code == Errc::unsupported);
  CHECK(driver.error().text.starts_with("no GPU can be used: cannot load NVIDIA's driver"));
  CHECK(driver.error().text.find("libno-cuda.so.1") != std::string::npos);
  const auto library = nccl::load_nccl({{nccl::Place::Kind::linker, "libno-nccl.so.2"}});
  REQUIRE_FALSE(library);
  CHECK(library.error().text.find("libno-nccl.so.2") != std::string::npos);
  CHECK(library.error().text.find("MUSTER_NCCL_LIBRARY") != std::string::npos);
  const auto old = nccl::load_nccl({{nccl::Place::Kind::named, MUSTER_FAKE_CUDA}});
  REQUIRE_FALSE(old);
  CHECK(old.error().text.find("lacks ncclGetVersion") != std::string::npos);
  const auto device = nccl::GpuDevice::open(fake_driver(), kFakeDevices);
  REQUIRE_FALSE(device);
  CHECK(device.error().code == Errc::invalid_argument);
  CHECK(device.error().text.find("there is no GPU 8") != std::string::npos);
}

collective::Result<std::unique_ptr<collective::Transport>> make(const Environ& environ,
                                                                LocalStore& store) {
  collective::TransportContext context;
  context.store = &store;
  context.prefix = "coll/x/0/world/";
  context.name = "world";
  context.device = 0;
  context.init_timeout = std::chrono::seconds(20);
  context.environ = &environ;
  return collective::make_nccl_transport(context);
}

TEST_CASE(
    "entry point: finds libraries by the environment, rejects blocking, reports a missing GPU") {
  LocalStore store;
  Environ environ;
  static_cast<void>(fake_driver());
  environ.set("MUSTER_CUDA_LIBRARY", MUSTER_FAKE_CUDA);
  environ.set("MUSTER_NCCL_LIBRARY", MUSTER_FAKE_NCCL);
  CHECK(make(environ, store));
  environ.set("NCCL_COMM_BLOCKING", "1");
  const auto blocking = make(environ, store);
  REQUIRE_FALSE(blocking);
  CHECK(blocking.error().text.find("NCCL_COMM_BLOCKING") != std::string::npos);
  if (!has_a_gpu()) {
    const auto ended = run_scenario({"no fakes"});
    CAPTURE(ended.output);
    CHECK(ended.exit_code() == 0);
    CHECK(ended.output.starts_with("unsupported: no GPU can be used: cannot load NVIDIA's driver"));
  }
}

TEST_CASE("a device that the process cannot see") {
  const auto ask = fake_driver()->call.pointer_attribute;
  CHECK(nccl::device_of(ask, nullptr) == -1);
  const DeviceMemory memory(3, 10);
  // Memory that the host can access counts as host memory, whatever the driver knows about it.
  const auto call_it =
      extra_of<void (*)(const void*, unsigned, unsigned)>(MUSTER_FAKE_CUDA, "muster_fake_call_it");
  for (const auto& [type, managed] :
       {std::pair(CU_MEMORYTYPE_HOST, 0U), std::pair(CU_MEMORYTYPE_DEVICE, 1U)}) {
    call_it(memory.get(), static_cast<unsigned>(type), managed);
    CHECK(nccl::device_of(ask, memory.get()) == -1);
  }
  call_it(memory.get(), CU_MEMORYTYPE_DEVICE, 0);
  CHECK(nccl::device_of(ask, static_cast<char*>(memory.get()) + 9) == 3);
}

}  // namespace
}  // namespace muster::testing
