// SPDX-License-Identifier: Apache-2.0
#include "nccl/unit/fakes.hpp"

#include "base/check.hpp"
#include "base/clock.hpp"
#include "collective/nccl/nccl_ops.hpp"

#include <cstdlib>

namespace muster::testing {
namespace {

template <class T>
T value_of(collective::Result<T> result) {
  MUSTER_CHECK(result.has_value());
  return *std::move(result);
}

std::shared_ptr<nccl::GpuDevice> open_device(int ordinal) {
  return value_of(nccl::GpuDevice::open(fake_driver(), ordinal));
}

void set_variable(const char* name, const std::string& value) {
  MUSTER_CHECK(setenv(name, value.c_str(), 1) == 0);  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace

std::shared_ptr<const nccl::CudaDriver> fake_driver() {
  static const auto kDriver = [] {
    set_variable("MUSTER_FAKE_CUDA_DEVICES", std::to_string(kFakeDevices));
    return value_of(nccl::load_cuda({{nccl::Place::Kind::named, MUSTER_FAKE_CUDA}}));
  }();
  return kDriver;
}

std::shared_ptr<const nccl::NcclLibrary> fake_nccl() {
  static const auto kLibrary =
      value_of(nccl::load_nccl({{nccl::Place::Kind::named, MUSTER_FAKE_NCCL}}));
  return kLibrary;
}

Faults::Faults(const std::string& text) {
  set_variable("MUSTER_FAKE_NCCL", text);
}

Faults::~Faults() {
  set_variable("MUSTER_FAKE_NCCL", "");
}

Joined join(const Join& how) {
  const nccl::Speaker speaker{"world", how.rank, how.size, how.epoch};
  const nccl::Setup setup{.nccl = how.library ? how.library : fake_nccl(),
                          .device = open_device(how.rank),
                          .speaker = speaker,
                          .peers = how.peers,
                          .abort_timeout = how.abort_timeout};
  const nccl::BootstrapContext context{&how.store,
                                       "coll/test/" + std::to_string(how.epoch) + "/world/",
                                       speaker,
                                       "host " + std::to_string(how.rank),
                                       {}};
  nccl::NcclOptions options;
  options.init_timeout = how.init_timeout;
  options.register_buffers = how.register_buffers;
  options.check_calls = how.check_calls;
  return nccl::NcclCommunicator::create(setup, context, options, how.progress);
}

void on_ranks(int size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back(body, rank);
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

DeviceMemory::DeviceMemory(int device, std::size_t bytes)
    : device_(open_device(device)), bytes_(bytes) {
  const nccl::CurrentDevice current(*device_);
  MUSTER_CHECK(device_->cuda().mem_alloc(&memory_, bytes + 1) == CUDA_SUCCESS);
}

DeviceMemory::~DeviceMemory() {
  const nccl::CurrentDevice current(*device_);
  device_->cuda().mem_free(memory_);
}

void DeviceMemory::upload(const std::vector<std::byte>& bytes) {
  const nccl::CurrentDevice current(*device_);
  MUSTER_CHECK(bytes.size() <= bytes_);
  const nccl::CudaTable& cuda = device_->cuda();
  MUSTER_CHECK(cuda.copy_to_device(memory_, bytes.data(), bytes.size()) == CUDA_SUCCESS);
  // The copy may still be running in the null stream, which the library's streams do not wait for.
  MUSTER_CHECK(cuda.stream_synchronize(nullptr) == CUDA_SUCCESS);
}

std::vector<std::byte> DeviceMemory::download() const {
  const nccl::CurrentDevice current(*device_);
  std::vector<std::byte> bytes(bytes_);
  MUSTER_CHECK(device_->cuda().copy_from_device(bytes.data(), memory_, bytes_) == CUDA_SUCCESS);
  return bytes;
}

std::vector<std::byte> elements(DType dtype,
                                std::size_t count,
                                const std::function<double(std::size_t)>& value) {
  const std::size_t width = collective::size_of(dtype);
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < count; ++i) {
    const auto element = nccl::encode_scalar(dtype, value(i));
    bytes.insert(bytes.end(), element.begin(), element.begin() + static_cast<long>(width));
  }
  return bytes;
}

collective::Result<std::shared_ptr<collective::Pending>> start_if_possible(
    nccl::NcclCommunicator& communicator, const Request& what) {
  const auto refused = communicator.refuse(what);
  return refused ? communicator.start(what) : std::unexpected(refused.error());
}

Request request(Kind kind, DType dtype, std::uint64_t count, int device) {
  Request made;
  made.kind = kind;
  made.dtype = dtype;
  made.count = count;
  made.device = device;
  made.root = 0;
  made.seq = 1;
  made.deadline = steady_now() + std::chrono::seconds(30);
  return made;
}

Request request(
    Kind kind, DType dtype, std::uint64_t count, int device, const DeviceMemory& memory) {
  Request made = request(kind, dtype, count, device);
  made.in = made.out = memory.get();
  return made;
}

void close_gate(const nccl::CudaTable& cuda, CUstream stream, std::binary_semaphore& gate) {
  const auto body = [](void* data) { static_cast<std::binary_semaphore*>(data)->acquire(); };
  MUSTER_CHECK(cuda.launch_host_function(stream, body, &gate) == CUDA_SUCCESS);
}

}  // namespace muster::testing

#ifdef MUSTER_NCCL_PLANTED
namespace muster::collective::nccl {
std::string_view planted_error;
}
#endif
