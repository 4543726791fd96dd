// SPDX-License-Identifier: Apache-2.0
// Work: a handle for an operation that has been started. Cheap to copy. Keeps alive everything that
// the operation needs, except the caller's buffers. Empty if the operation completed within the
// call. Any thread of the rank's process may wait for it. In a forked child, done() is true and
// waiting fails with invalid_state, because the threads that complete operations exist only in the
// parent.
#pragma once

#include "base/time.hpp"
#include "collective/error.hpp"

#include <cstdint>
#include <memory>

namespace muster::collective {

// A backend's state for an operation in progress. Any thread.
class Pending {
 public:
  Pending() = default;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  virtual ~Pending() = default;

  [[nodiscard]] virtual bool done() const = 0;
  // Waits until the host can read the results. 0: only the operation's own deadline applies. If
  // `timeout` expires first, returns the error timeout, and the operation continues.
  [[nodiscard]] virtual Result<void> wait(Duration timeout) = 0;
  // Makes later work on `stream` wait for the operation; does not block the host.
  [[nodiscard]] virtual Result<void> wait_stream(void* stream) = 0;
};

class Work {
 public:
  Work() = default;

  // pending: null if the operation is complete.
  Work(std::uint64_t seq, std::shared_ptr<Pending> pending);

  [[nodiscard]] bool done() const { return !pending_ || is_done(); }

  [[nodiscard]] Result<void> wait(Duration timeout = Duration::zero()) const;
  [[nodiscard]] Result<void> wait_stream(void* stream) const;

  // The operation's number on its communicator, starting at 1 and equal on all ranks. GPU
  // operations are counted separately. 0 if there is no operation.
  [[nodiscard]] std::uint64_t seq() const { return seq_; }

 private:
  [[nodiscard]] bool is_done() const;

  std::uint64_t seq_ = 0;
  std::shared_ptr<Pending> pending_;
  std::uint32_t generation_ = 0;  // fork generation in which the operation was started
};

}  // namespace muster::collective
