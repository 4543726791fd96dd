// SPDX-License-Identifier: Apache-2.0
// Ranks of a fake NCCL for tests: threads of this process, each with its own device, that use an
// in-memory store. A helper specifies what every rank does; results are returned by rank.
#pragma once

#include "base/check.hpp"
#include "collective/nccl/nccl_communicator.hpp"
#include "unit/collective/local_store.hpp"

#include <functional>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>

namespace muster::testing {

namespace nccl = collective::nccl;
using collective::DType;
using collective::Kind;
using collective::Op;
using collective::Request;

inline constexpr int kFakeDevices = 8;

// The two libraries, loaded once.
[[nodiscard]] std::shared_ptr<const nccl::CudaDriver> fake_driver();
[[nodiscard]] std::shared_ptr<const nccl::NcclLibrary> fake_nccl();

// Faults for communicators that start during its lifetime (nccl/fakes/nccl/knobs.hpp).
class Faults {
 public:
  explicit Faults(const std::string& text);
  ~Faults();
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;
};

struct Join {
  LocalStore& store;
  int rank = 0;
  int size = 1;
  std::uint64_t epoch = 0;
  Duration init_timeout = std::chrono::seconds(20);
  bool register_buffers = false;
  bool check_calls = false;
  collective::PeerWatch* peers = nullptr;
  collective::Progress* progress = nullptr;
  std::shared_ptr<const nccl::NcclLibrary> library = {};  // null: the fake
  Duration abort_timeout = nccl::kAbortTimeout;
};

using Joined = collective::Result<std::unique_ptr<nccl::NcclCommunicator>>;
[[nodiscard]] Joined join(const Join& how);

// Runs `body(rank)` in a thread for each rank.
void on_ranks(int size, const std::function<void(int)>& body);

// Device memory with blocking uploads and downloads.
class DeviceMemory {
 public:
  DeviceMemory(int device, std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  [[nodiscard]] void* get() const { return reinterpret_cast<void*>(memory_); }

  void upload(const std::vector<std::byte>& bytes);
  [[nodiscard]] std::vector<std::byte> download() const;

 private:
  std::shared_ptr<nccl::GpuDevice> device_;
  std::size_t bytes_;
  CUdeviceptr memory_ = 0;
};

// `count` elements of a type, each computed by `value(index)`.
[[nodiscard]] std::vector<std::byte> elements(DType dtype,
                                              std::size_t count,
                                              const std::function<double(std::size_t)>& value);

// Like the communicator: a rejected request is not started.
[[nodiscard]] collective::Result<std::shared_ptr<collective::Pending>> start_if_possible(
    nccl::NcclCommunicator& communicator, const Request& what);

[[nodiscard]] Request request(Kind kind, DType dtype, std::uint64_t count, int device);
// In place.
[[nodiscard]] Request request(
    Kind kind, DType dtype, std::uint64_t count, int device, const DeviceMemory& memory);

// Work that is queued on the stream from now on starts only after the gate is opened.
void close_gate(const nccl::CudaTable& cuda, CUstream stream, std::binary_semaphore& gate);

// A function that only the fake library has, by name.
template <class Function>
Function extra_of(const char* library, const char* name) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  MUSTER_CHECK(handle != nullptr);
  const auto found = reinterpret_cast<Function>(dlsym(handle, name));
  MUSTER_CHECK(found != nullptr);
  return found;
}

}  // namespace muster::testing
