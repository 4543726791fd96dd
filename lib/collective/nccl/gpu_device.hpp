// SPDX-License-Identifier: Apache-2.0
// GpuDevice: a GPU of this process. Holds its primary context (shared with the CUDA runtime and
// PyTorch) and a lock that admits one thread at a time to NCCL, which is not thread-safe per
// device. Shared by all communicators of the device. Resource type; any thread.
#pragma once

#include "collective/nccl/cuda_driver.hpp"

#include <memory>
#include <mutex>

namespace muster::collective::nccl {

class GpuDevice {
 public:
  // Returns the same object to all callers in the process. Errors: invalid_argument (the device
  // does not exist), cuda.
  [[nodiscard]] static Result<std::shared_ptr<GpuDevice>> open(
      std::shared_ptr<const CudaDriver> driver, int ordinal);
  ~GpuDevice();
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;

  [[nodiscard]] const CudaTable& cuda() const { return driver_->call; }

  [[nodiscard]] const CudaDriver& driver() const { return *driver_; }

  [[nodiscard]] int ordinal() const { return ordinal_; }

  // "GPU 0 (NVIDIA H200)".
  [[nodiscard]] const std::string& description() const { return description_; }

  // Sums in fp8 need compute capability 9.
  [[nodiscard]] bool sums_fp8() const { return major_ >= 9; }

  [[nodiscard]] std::mutex& nccl_lock() { return nccl_lock_; }

  [[nodiscard]] CUcontext context() const { return context_; }

 private:
  GpuDevice(std::shared_ptr<const CudaDriver> driver, int ordinal);
  [[nodiscard]] Result<void> start();

  std::shared_ptr<const CudaDriver> driver_;
  int ordinal_;
  CUcontext context_ = nullptr;
  int major_ = 0;
  std::string description_;
  std::mutex nccl_lock_;
};

// Makes the device current for the calling thread; restores the previous one when destroyed.
class CurrentDevice {
 public:
  explicit CurrentDevice(const GpuDevice& device);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  const GpuDevice& device_;
  bool pushed_ = false;
};

}  // namespace muster::collective::nccl
