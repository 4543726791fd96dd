// SPDX-License-Identifier: Apache-2.0
// Work: a handle for an operation that has been started. Movable, not copyable. Any thread may
// wait for it. In a forked child, waiting fails with invalid_state.
#pragma once

#include "muster/collective_types.hpp"
#include "muster/result.hpp"

#include <memory>

namespace muster {
inline namespace v1 {

class Work {
 public:
  Work() = default;  // a completed operation

  explicit Work(muster_work* work) : work_(work) {}

  [[nodiscard]] bool done() const { return muster_work_done(work_.get()) == 1; }

  // Waits until the host can read the results. `timeout` 0 means the operation's own timeout. On
  // Errc::timeout the operation continues, and the caller may wait again.
  Result<void> wait(Duration timeout = Duration::zero()) const {
    return detail::result_of(muster_work_wait(work_.get(), timeout.count()));
  }

  // Device buffers: makes later work on this CUDA stream wait for the operation.
  Result<void> wait_stream(void* stream) const {
    return detail::result_of(muster_work_wait_stream(work_.get(), stream));
  }

  // Transfers ownership to a caller of the C interface; null if the operation is complete.
  [[nodiscard]] muster_work* release() { return work_.release(); }

 private:
  struct Free {
    void operator()(muster_work* work) const { muster_work_free(work); }
  };

  std::unique_ptr<muster_work, Free> work_;
};

}  // namespace v1
}  // namespace muster
