// SPDX-License-Identifier: Apache-2.0
// GpuQueue: implements DeviceQueue for a GPU with the CUDA driver. Resource type; each call makes
// the device current. Before destroying it, make sure that its own stream is idle and that none of
// its conversions is still running on a caller's stream.
#pragma once

#include "collective/nccl/gpu_event.hpp"
#include "collective/transport/device_queue.hpp"

#include <map>
#include <string>

namespace muster::collective::nccl {

class GpuQueue final : public DeviceQueue {
 public:
  [[nodiscard]] static Result<std::unique_ptr<DeviceQueue>> create(
      std::shared_ptr<GpuDevice> device);
  ~GpuQueue() override;

  [[nodiscard]] Result<void> fill_zero(void* memory, std::size_t bytes, void* stream) override;
  [[nodiscard]] Result<void> copy(void* to,
                                  const void* from,
                                  std::size_t bytes,
                                  void* stream) override;
  [[nodiscard]] Result<void> load_casts() override;
  [[nodiscard]] Result<void> narrow(
      DType wire, const void* from, void* to, std::size_t count, void* stream) override;
  [[nodiscard]] Result<void> widen(
      DType wire, const void* from, void* to, std::size_t count, void* stream) override;

  [[nodiscard]] void* own_stream() const override { return stream_->get(); }

  [[nodiscard]] Result<void> follow(void* stream, void* earlier) override;
  [[nodiscard]] Result<void> settle(void* stream) override;

 private:
  GpuQueue(std::shared_ptr<GpuDevice> device, std::unique_ptr<GpuStream> stream);
  [[nodiscard]] Result<void> said(const char* what, CUresult result) const;
  [[nodiscard]] Result<void> launch(
      const char* kernel, const void* from, void* to, std::size_t count, void* stream);

  std::shared_ptr<GpuDevice> device_;
  std::unique_ptr<GpuStream> stream_;
  std::shared_ptr<EventPool> events_;
  CUmodule casts_ = nullptr;
  std::map<std::string, CUfunction> kernels_;
};

}  // namespace muster::collective::nccl
