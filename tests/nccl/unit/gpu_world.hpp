// SPDX-License-Identifier: Apache-2.0
// Ranks as threads that use the public interface with GPU buffers, over the fakes. Each has its own
// fake GPU and stream. Memory uses that no stream, event or wait orders terminate the program.
#pragma once

#include "base/check.hpp"
#include "nccl/unit/fakes.hpp"
#include "unit/collective/world.hpp"

#include <cstdlib>

namespace muster::testing {

using collective::Buffer;
using collective::Communicator;
using collective::testing::World;

// Selects the libraries; call this before any communicator exists. One thread loads them first,
// because the thread sanitizer does not see the locks in dlopen.
inline void use_fakes() {
  static_cast<void>(fake_driver());
  static_cast<void>(fake_nccl());
  for (const auto& [name, value] : {std::pair("MUSTER_CUDA_LIBRARY", MUSTER_FAKE_CUDA),
                                    std::pair("MUSTER_NCCL_LIBRARY", MUSTER_FAKE_NCCL)}) {
    MUSTER_CHECK(setenv(name, value, 1) == 0);  // NOLINT(concurrency-mt-unsafe)
  }
}

inline void run_on_gpus(int ranks, const World::Main& main) {
  use_fakes();
  World{.ranks = ranks}.run(main);
}

// Rank 0 aborts once all ranks have arrived here; all start again in the next epoch.
inline collective::Result<Communicator> broken_and_rebuilt(Communicator& comm) {
  static_cast<void>(comm.barrier());  // its end may coincide with the abort
  if (comm.rank() == 0) {
    comm.abort("test");
  }
  collective::Membership next;
  next.rank = comm.rank();
  next.size = comm.size();
  next.epoch = comm.epoch() + 1;
  return comm.rebuild(next);
}

// A rank's GPU with a stream. Functions do not wait unless their comment says so.
class Gpu {
 public:
  explicit Gpu(int ordinal)
      : device_(*nccl::GpuDevice::open(fake_driver(), ordinal)),
        current_(*device_),
        stream_(*nccl::GpuStream::create(device_)) {}

  [[nodiscard]] void* stream() const { return stream_->get(); }

  [[nodiscard]] const nccl::CudaTable& cuda() const { return device_->cuda(); }

  // The values must stay valid until the stream is settled.
  void upload(void* to, const std::vector<float>& values) const {
    MUSTER_CHECK(cuda().copy_to_device_async(reinterpret_cast<CUdeviceptr>(to),
                                             values.data(),
                                             values.size() * sizeof(float),
                                             stream_->get()) == CUDA_SUCCESS);
  }

  // Waits until all work on the stream is done.
  [[nodiscard]] std::vector<float> download(const void* from, std::size_t count) const {
    std::vector<float> out(count);
    MUSTER_CHECK(cuda().copy_from_device_async(out.data(),
                                               reinterpret_cast<CUdeviceptr>(from),
                                               count * sizeof(float),
                                               stream_->get()) == CUDA_SUCCESS);
    settle();
    return out;
  }

  void settle() const { MUSTER_CHECK(cuda().stream_synchronize(stream_->get()) == CUDA_SUCCESS); }

 private:
  std::shared_ptr<nccl::GpuDevice> device_;
  nccl::CurrentDevice current_;
  std::unique_ptr<nccl::GpuStream> stream_;
};

}  // namespace muster::testing
