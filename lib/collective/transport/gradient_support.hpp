// SPDX-License-Identifier: Apache-2.0
// GradientSupport: the services that GradientSync needs from a communicator in addition to the
// public operations: device queues and small internal operations. The communicator implements it.
// Private to the library. One thread at a time, as with the communicator.
#pragma once

#include "collective/transport/device_queue.hpp"
#include "collective/types.hpp"

#include <memory>

namespace muster::collective {

class GradientSupport {
 public:
  GradientSupport() = default;
  GradientSupport(const GradientSupport&) = delete;
  GradientSupport& operator=(const GradientSupport&) = delete;
  virtual ~GradientSupport() = default;

  // Creates a queue for this GPU. All ranks must call make_queue(), because the first call starts
  // the backend.
  [[nodiscard]] virtual Result<std::unique_ptr<DeviceQueue>> make_queue(int device) = 0;

  // Internal operations on host memory. They are allowed even if the user selected only nccl, and
  // they complete before the call returns.
  [[nodiscard]] virtual Result<void> gather_all(ConstBuffer in, Buffer out) = 0;
  [[nodiscard]] virtual Result<void> reduce_all(Buffer buffer, Op op) = 0;
  [[nodiscard]] virtual Result<void> broadcast_from(int root, Buffer buffer) = 0;
};

}  // namespace muster::collective
