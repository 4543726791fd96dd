// SPDX-License-Identifier: Apache-2.0
// NcclPending: an operation queued on the GPU, with the events before and after it and its clock.
// A communicator's operations run in order. So an operation has started when all earlier ones have
// completed and its first event has passed. Shared by the caller's Work and the watchdog; any
// thread. An abort also lets the events pass, so check whether the communicator is dead after the
// last event.
#pragma once

#include "collective/nccl/gpu_event.hpp"
#include "collective/nccl/nccl_core.hpp"
#include "collective/nccl/nccl_state.hpp"
#include "collective/work.hpp"

#include <atomic>

namespace muster::collective::nccl {

class NcclPending final : public Pending, public Underway {
 public:
  NcclPending(std::shared_ptr<NcclState> state, const Request& request, OperationClock clock)
      : state_(std::move(state)), request_(request), clock_(clock) {}

  [[nodiscard]] bool done() const override;
  [[nodiscard]] Result<void> wait(Duration timeout) override;
  [[nodiscard]] Result<void> wait_stream(void* stream) override;
  [[nodiscard]] At at() const override;

  // For the watchdog, which has made the device current. Call it only when all earlier operations
  // have completed.
  void look_at_start(TimePoint now, Progress* progress);

  [[nodiscard]] bool ended() { return passed(); }

  [[nodiscard]] bool overdue(TimePoint now) const { return clock_.overdue(now); }

  [[nodiscard]] Error late() const;
  // Returns an error if another rank called a different operation.
  [[nodiscard]] std::optional<Error> disagreement() const;

  [[nodiscard]] const Request& request() const { return request_; }

  // Set before other threads can access the operation.
  GpuEvent ready;
  GpuEvent end;

 private:
  // Whether the operation completed, rather than being aborted.
  [[nodiscard]] bool passed() const;

  std::shared_ptr<NcclState> state_;
  Request request_;
  OperationClock clock_;  // used by the watchdog only
  mutable std::atomic<bool> finished_{false};
};

}  // namespace muster::collective::nccl
