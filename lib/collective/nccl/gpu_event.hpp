// SPDX-License-Identifier: Apache-2.0
// Events without timing, taken from a pool and given back, and the communicator's own stream of
// high priority. The caller has made the device current. Events may be given back by any thread;
// the rest is one thread's.
#pragma once

#include "collective/nccl/gpu_device.hpp"

#include <memory>
#include <mutex>
#include <vector>

namespace muster::collective::nccl {

class EventPool;

// Goes back into its pool at its end. Movable.
class GpuEvent {
 public:
  GpuEvent() = default;

  GpuEvent(std::shared_ptr<EventPool> pool, CUevent event)
      : pool_(std::move(pool)), event_(event) {}

  GpuEvent(GpuEvent&&) noexcept = default;
  GpuEvent& operator=(GpuEvent&& other) noexcept;
  ~GpuEvent();

  [[nodiscard]] CUevent get() const { return event_; }

  // Marks what the stream has been given up to now.
  [[nodiscard]] Result<void> record(CUstream stream) const;
  // What `stream` is given from now on runs after the mark.
  [[nodiscard]] Result<void> hold(CUstream stream) const;
  // Whether the mark has been passed.
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

// Owns a stream that does not wait for the default stream.
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
