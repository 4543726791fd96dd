// SPDX-License-Identifier: Apache-2.0
// One rank of scripts/gpu-check: reads its rank from the environment, and provides the GPU, memory
// on it, and rows of the table, which the script reads from stdout. Failures exit with a message,
// because a check has nothing to recover.
#pragma once

#include "base/environ.hpp"
#include "collective/bootstrap/environment.hpp"
#include "collective/nccl/nccl_communicator.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace muster::gpu_check {

namespace nccl = collective::nccl;
using collective::DType;
using collective::Kind;
using collective::Op;
using collective::Request;
using collective::Result;

[[noreturn]] void give_up(const std::string& text);

template <class T>
T must(Result<T> result) {
  if (!result) {
    give_up(result.error().text);
  }
  if constexpr (!std::is_void_v<T>) {
    return *std::move(result);
  }
}

// A row of the table: "what<TAB>ok or info<TAB>text".
void row(const std::string& what, bool figure, const std::string& text);

class Rank {
 public:
  Rank();

  [[nodiscard]] int rank() const { return place.membership.rank; }

  [[nodiscard]] int size() const { return place.membership.size; }

  // A communicator of the first `size` ranks.
  [[nodiscard]] Result<std::unique_ptr<nccl::NcclCommunicator>> join(std::uint64_t epoch,
                                                                     int size,
                                                                     Duration init_timeout);
  [[nodiscard]] nccl::BootstrapContext context(std::uint64_t epoch, int size);

  collective::WorkerPlace place;
  std::shared_ptr<Store> store;
  std::shared_ptr<const nccl::CudaDriver> driver;
  std::shared_ptr<const nccl::NcclLibrary> library;
  std::shared_ptr<nccl::GpuDevice> device;
  bool over_fakes = false;  // run smaller tests, because the fakes are slow
};

class Memory {
 public:
  Memory(const Rank& rank, std::size_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] void* get() const { return reinterpret_cast<void*>(place_); }

  [[nodiscard]] CUdeviceptr place() const { return place_; }

  void upload(const std::vector<std::byte>& bytes) const;
  [[nodiscard]] std::vector<std::byte> download(std::size_t bytes) const;

 private:
  const Rank& rank_;
  CUdeviceptr place_ = 0;
};

[[nodiscard]] std::vector<std::byte> elements(DType dtype,
                                              std::size_t count,
                                              const std::function<double(std::size_t)>& value);
[[nodiscard]] Request request(Kind kind, DType dtype, std::uint64_t count, Duration timeout);

// The checks, under the script's names.
void check_operations(Rank& rank);
void check_split(Rank& rank);
void check_kill(Rank& rank);
void check_stop(Rank& rank);
void check_absent(Rank& rank);
void check_public(Rank& rank);
void check_inside(Rank& rank);
void check_overhead(Rank& rank);
void check_casts(Rank& rank);
void check_overlap(Rank& rank);

}  // namespace muster::gpu_check
