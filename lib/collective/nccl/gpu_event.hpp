// SPDX-License-Identifier: Apache-2.0
// A pool of events without timing, and the communicator's own high-priority stream. The caller must
// make the device current first. Any thread may return events to the pool; only one thread at a
// time may call the other functions.
#pragma once

#include "collective/nccl/gpu_device.hpp"

#include <memory>
#include <mutex>
#include <vector>

namespace muster::collective::nccl {

class EventPool;

// Returns to its pool when destroyed. Movable.
class GpuEvent {
 public:
  GpuEvent() = default;

  GpuEvent(std::shared_ptr<EventPool> pool, CUevent event)
      : pool_(std::move(pool)), event_(event) {}

  GpuEvent(GpuEvent&&) noexcept = default;
  GpuEvent& operator=(GpuEvent&& other) noexcept;
  ~GpuEvent();

  [[nodiscard]] CUevent get() const { return event_; }

  // Records the event after the work queued on the stream so far.
  [[nodiscard]] Result<void> record(CUstream stream) const;
  // Makes later work on `stream` wait for the event.
  [[nodiscard]] Result<void> hold(CUstream stream) const;
  // Whether the GPU has reached the event.
  [[nodiscard]] Result<bool> passed() const;

 private:
  std::shared_ptr<EventPool> pool_;
  CUevent event_ = nullptr;
};

class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  explicit EventPool(std::shared_ptr<GpuDevice> device) : device_(std::move(device)) {}

  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  [[nodiscard]] Result<GpuEvent> take();
  void give_back(CUevent event);

  [[nodiscard]] const GpuDevice& device() const { return *device_; }

 private:
  std::shared_ptr<GpuDevice> device_;
  std::mutex mutex_;
  std::vector<CUevent> free_;
};

// Owns a stream that does not synchronize with the default stream.
class GpuStream {
 public:
  [[nodiscard]] static Result<std::unique_ptr<GpuStream>> create(std::shared_ptr<GpuDevice> device);
  ~GpuStream();
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;

  [[nodiscard]] CUstream get() const { return stream_; }

 private:
  GpuStream(std::shared_ptr<GpuDevice> device, CUstream stream)
      : device_(std::move(device)), stream_(stream) {}

  std::shared_ptr<GpuDevice> device_;
  CUstream stream_;
};

}  // namespace muster::collective::nccl
