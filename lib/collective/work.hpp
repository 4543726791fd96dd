// SPDX-License-Identifier: Apache-2.0
// Work: an operation that was started. Cheap to copy; keeps alive what the operation needs (not the
// caller's buffers). One that ended within the call holds nothing. Any thread of the rank's process
// may wait for it. In a forked child done() is true and waiting fails with invalid_state: the
// threads that complete operations exist only in the parent.
#pragma once

#include "base/time.hpp"
#include "collective/error.hpp"

#include <cstdint>
#include <memory>

namespace muster::collective {

// What a back end keeps of an operation under way. Calls from any thread.
class Pending {
 public:
  Pending() = default;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  virtual ~Pending() = default;

  [[nodiscard]] virtual bool done() const = 0;
  // Until the results can be read by the host. 0: the operation's own deadline only. If `timeout`
  // ends first: timeout, and the operation goes on.
  [[nodiscard]] virtual Result<void> wait(Duration timeout) = 0;
  // Work queued on `stream` from now on runs after the operation; does not block the host.
  [[nodiscard]] virtual Result<void> wait_stream(void* stream) = 0;
};

class Work {
 public:
  Work() = default;

  // pending: null if the operation is over.
  Work(std::uint64_t seq, std::shared_ptr<Pending> pending);

  [[nodiscard]] bool done() const { return !pending_ || is_done(); }

  [[nodiscard]] Result<void> wait(Duration timeout = Duration::zero()) const;
  [[nodiscard]] Result<void> wait_stream(void* stream) const;

  // Number of the operation on its communicator, from 1; the same on all ranks; operations on GPUs
  // are counted by themselves. 0: none.
  [[nodiscard]] std::uint64_t seq() const { return seq_; }

 private:
  [[nodiscard]] bool is_done() const;

  std::uint64_t seq_ = 0;
  std::shared_ptr<Pending> pending_;
  std::uint32_t generation_ = 0;  // of the process that started it, if it is pending
};

}  // namespace muster::collective
