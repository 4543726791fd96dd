// SPDX-License-Identifier: Apache-2.0
#include "collective/nccl/gpu_event.hpp"

#include <utility>

namespace muster::collective::nccl {

GpuEvent& GpuEvent::operator=(GpuEvent&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(event_, other.event_);
  return *this;
}

GpuEvent::~GpuEvent() {
  if (pool_) {
    pool_->give_back(event_);
  }
}

Result<void> GpuEvent::record(CUstream stream) const {
  const auto result = pool_->device().cuda().event_record(event_, stream);
  if (result != CUDA_SUCCESS) {
    return std::unexpected(pool_->device().driver().error("cuEventRecord", result));
  }
  return {};
}

Result<void> GpuEvent::hold(CUstream stream) const {
  const auto result = pool_->device().cuda().stream_wait_event(stream, event_, 0);
  if (result != CUDA_SUCCESS) {
    return std::unexpected(pool_->device().driver().error("cuStreamWaitEvent", result));
  }
  return {};
}

Result<bool> GpuEvent::passed() const {
  const auto result = pool_->device().cuda().event_query(event_);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) {
    return std::unexpected(pool_->device().driver().error("cuEventQuery", result));
  }
  return result == CUDA_SUCCESS;
}

EventPool::~EventPool() {
  const CurrentDevice current(*device_);
  for (CUevent event : free_) {
    device_->cuda().event_destroy(event);
  }
}

Result<GpuEvent> EventPool::take() {
  {
    const std::scoped_lock lock(mutex_);
    if (!free_.empty()) {
      CUevent event = free_.back();
      free_.pop_back();
      return GpuEvent(shared_from_this(), event);
    }
  }
  CUevent event = nullptr;
  const auto result = device_->cuda().event_create(&event, CU_EVENT_DISABLE_TIMING);
  if (result != CUDA_SUCCESS) {
    return std::unexpected(device_->driver().error("cuEventCreate", result));
  }
  return GpuEvent(shared_from_this(), event);
}

void EventPool::give_back(CUevent event) {
  const std::scoped_lock lock(mutex_);
  free_.push_back(event);
}

Result<std::unique_ptr<GpuStream>> GpuStream::create(std::shared_ptr<GpuDevice> device) {
  int least = 0;
  int greatest = 0;
  CUstream stream = nullptr;
  auto result = device->cuda().priority_range(&least, &greatest);
  if (result == CUDA_SUCCESS) {
    result = device->cuda().stream_create(&stream, CU_STREAM_NON_BLOCKING, greatest);
  }
  if (result != CUDA_SUCCESS) {
    return std::unexpected(device->driver().error("cuStreamCreateWithPriority", result));
  }
  return std::unique_ptr<GpuStream>(new GpuStream(std::move(device), stream));
}

GpuStream::~GpuStream() {
  const CurrentDevice current(*device_);
  device_->cuda().stream_destroy(stream_);
}

}  // namespace muster::collective::nccl
