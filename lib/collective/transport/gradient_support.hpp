// SPDX-License-Identifier: Apache-2.0
// GradientSupport: what GradientSync needs of a communicator beside the operations of the user:
// queues on devices, and small operations of its own. Implemented by the communicator. Private to
// the library. Calls as the communicator's: one thread at a time.
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

  // Of the GPU with this ordinal. Called by all ranks: the first call starts its back end.
  [[nodiscard]] virtual Result<std::unique_ptr<DeviceQueue>> make_queue(int device) = 0;

  // Operations of the library itself, on memory of the host: also where the user allows no back end
  // but nccl. They are over when they return.
  [[nodiscard]] virtual Result<void> gather_all(ConstBuffer in, Buffer out) = 0;
  [[nodiscard]] virtual Result<void> reduce_all(Buffer buffer, Op op) = 0;
  [[nodiscard]] virtual Result<void> broadcast_from(int root, Buffer buffer) = 0;
};

}  // namespace muster::collective
