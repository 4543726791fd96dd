// SPDX-License-Identifier: Apache-2.0
// DeviceQueue: the device work that GradientSync needs in addition to reductions: fills, copies and
// type conversions, queued on the caller's streams or on its own. The device's backend creates it;
// after that it is independent of the backend. Private to the library. One thread at a time.
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

  // Call once before any conversion. Loading the kernels takes milliseconds and may wait for all
  // work on the device, so it must not happen in the middle of a step.
  [[nodiscard]] virtual Result<void> load_casts() = 0;
  // Convert `count` elements from f32 to bf16 or f16 (round to nearest even), and back. Both
  // buffers must be aligned to 16 bytes.
  [[nodiscard]] virtual Result<void> narrow(
      DType wire, const void* from, void* to, std::size_t count, void* stream) = 0;
  [[nodiscard]] virtual Result<void> widen(
      DType wire, const void* from, void* to, std::size_t count, void* stream) = 0;

  [[nodiscard]] virtual void* own_stream() const = 0;
  // Makes later work on `stream` wait for the work already queued on `earlier`.
  [[nodiscard]] virtual Result<void> follow(void* stream, void* earlier) = 0;
  // Blocks the host until the stream has completed all its work.
  [[nodiscard]] virtual Result<void> settle(void* stream) = 0;
};

}  // namespace muster::collective
