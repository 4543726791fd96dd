// SPDX-License-Identifier: Apache-2.0
// NcclPending: an operation that is queued on the GPU: the event that it waits for, the event after
// it, and its clock. Operations of a communicator run in order, so one has begun when those before
// it have ended and its first event has passed. Shared by the caller's Work and the watchdog; any
// thread. An event that passes because the communicator was aborted is no result, so death is
// looked at after the event.
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

  // Of the watchdog, which has made the device current; the operations before this one have ended.
  void look_at_start(TimePoint now, Progress* progress);

  [[nodiscard]] bool ended() { return passed(); }

  [[nodiscard]] bool overdue(TimePoint now) const { return clock_.overdue(now); }

  [[nodiscard]] Error late() const;
  // What is wrong if another rank calls something else.
  [[nodiscard]] std::optional<Error> disagreement() const;

  [[nodiscard]] const Request& request() const { return request_; }

  // Set before anybody else has it.
  GpuEvent ready;
  GpuEvent end;

 private:
  // Whether the end has been reached, and not by an abort.
  [[nodiscard]] bool passed() const;

  std::shared_ptr<NcclState> state_;
  Request request_;
  OperationClock clock_;  // the watchdog's
  mutable std::atomic<bool> finished_{false};
};

}  // namespace muster::collective::nccl
