// SPDX-License-Identifier: Apache-2.0
// Ranks of a fake NCCL for tests: threads of this process, each with a device of its own, that meet
// over a store in memory. A helper says what every rank does; results come back by rank.
#pragma once

#include "collective/nccl/nccl_communicator.hpp"
#include "unit/collective/local_store.hpp"

#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace muster::testing {

namespace nccl = collective::nccl;
using collective::DType;
using collective::Kind;
using collective::Op;
using collective::Request;

inline constexpr int kFakeDevices = 8;

// The two libraries, opened once.
[[nodiscard]] std::shared_ptr<const nccl::CudaDriver> fake_driver();
[[nodiscard]] std::shared_ptr<const nccl::NcclLibrary> fake_nccl();

// Faults of communicators that are started while it lives (fakes/nccl/knobs.hpp).
class Faults {
 public:
  explicit Faults(const std::string& words);
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
  Duration abort_patience = nccl::kAbortPatience;
};

using Joined = collective::Result<std::unique_ptr<nccl::NcclCommunicator>>;
[[nodiscard]] Joined join(const Join& how);

// Runs `body(rank)` in a thread for each rank.
void on_ranks(int size, const std::function<void(int)>& body);

// Memory of a device, with uploads and downloads that wait.
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

// `count` elements of a type, each made by `value(index)`.
[[nodiscard]] std::vector<std::byte> elements(DType dtype,
                                              std::size_t count,
                                              const std::function<double(std::size_t)>& value);

// As the communicator does: what is refused is not started.
[[nodiscard]] collective::Result<std::shared_ptr<collective::Pending>> start_if_possible(
    nccl::NcclCommunicator& communicator, const Request& what);

[[nodiscard]] Request request(Kind kind, DType dtype, std::uint64_t count, int device);

}  // namespace muster::testing
