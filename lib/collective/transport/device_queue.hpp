// SPDX-License-Identifier: Apache-2.0
// DeviceQueue: what gradients on a device need beside sums, queued on streams of the caller or on a
// stream of its own: fills, copies, conversions between types. Made by the back end of the device,
// and independent of it from then on. Private to the library. Calls from one thread at a time.
#pragma once

#include "collective/error.hpp"
#include "collective/types.hpp"

#include <cstddef>

namespace muster::collective {

class DeviceQueue {
 public:
  DeviceQueue() = default;
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;
  virtual ~DeviceQueue() = default;

  [[nodiscard]] virtual Result<void> fill_zero(void* memory, std::size_t bytes, void* stream) = 0;
  [[nodiscard]] virtual Result<void> copy(void* to,
                                          const void* from,
                                          std::size_t bytes,
                                          void* stream) = 0;

  // Called once before the conversions: to load them takes milliseconds, and may wait for all that
  // the device does, so it is nothing for the middle of a step.
  [[nodiscard]] virtual Result<void> load_casts() = 0;
  // `count` elements of f32 to bf16 or f16, rounded to nearest even, and back. Both sides begin at
  // multiples of 16 bytes.
  [[nodiscard]] virtual Result<void> narrow(
      DType wire, const void* from, void* to, std::size_t count, void* stream) = 0;
  [[nodiscard]] virtual Result<void> widen(
      DType wire, const void* from, void* to, std::size_t count, void* stream) = 0;

  [[nodiscard]] virtual void* own_stream() const = 0;
  // What `stream` is given from now on runs after what `earlier` has been given.
  [[nodiscard]] virtual Result<void> follow(void* stream, void* earlier) = 0;
  // The host waits until the stream has done all that it was given.
  [[nodiscard]] virtual Result<void> settle(void* stream) = 0;
};

}  // namespace muster::collective
