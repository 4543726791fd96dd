// SPDX-License-Identifier: Apache-2.0
// The backend's decision logic, independent of NCCL and of the clock: how long to poll a background
// call, which operation is overdue, which results are fatal. Pure.
#pragma once

#include "base/time.hpp"
#include "collective/error.hpp"

#include <optional>
#include <string>
#include <vector>

namespace muster::collective::nccl {

// The values of ncclResult_t, so that this header does not depend on NVIDIA's.
inline constexpr int kSuccess = 0;
inline constexpr int kInProgress = 7;

// Polls a call that may continue in the background after it has returned.
class PollCore {
 public:
  struct Step {
    enum class Kind { ended, again, failed, late };
    Kind kind = Kind::ended;
    Duration pause{0};  // before the next poll
    bool operator==(const Step&) const = default;
  };

  // NCCL 2.28 queues each operation in its own thread, which takes a few µs; a sleep would take
  // longer.
  static constexpr Duration kEager = std::chrono::microseconds(50);
  static constexpr Duration kFirstPause = std::chrono::microseconds(20);
  static constexpr Duration kLongestPause = std::chrono::milliseconds(2);

  explicit PollCore(TimePoint deadline) : deadline_(deadline) {}

  // `answer` is the result of the call or of the latest poll.
  [[nodiscard]] Step next(int answer, TimePoint now);

 private:
  TimePoint deadline_;
  std::optional<TimePoint> first_asked_;
  Duration pause_ = kFirstPause;
};

// Any failure is fatal for a non-blocking communicator, because the communicator stays in the
// failed state.
[[nodiscard]] constexpr bool ends_communicator(int result) {
  return result != kSuccess && result != kInProgress;
}

// The clock of one operation. The caller's earlier work does not count, because time runs from
// when the GPU starts the operation. But an operation that the GPU never starts must also time
// out, so a second, longer limit runs from when it was queued.
class OperationClock {
 public:
  static constexpr int kQueuedFactor = 2;

  OperationClock(TimePoint queued, Duration timeout) : queued_(queued), timeout_(timeout) {}

  void started(TimePoint now) {
    if (!started_) {
      started_ = now;
    }
  }

  [[nodiscard]] bool has_started() const { return started_.has_value(); }

  [[nodiscard]] bool overdue(TimePoint now) const;

  [[nodiscard]] Duration timeout() const { return timeout_; }

 private:
  TimePoint queued_;
  Duration timeout_;
  std::optional<TimePoint> started_;
};

// Whether NCCL would create communicators that cannot be aborted, because NCCL_COMM_BLOCKING is
// nonzero. `variable` is its value in the environment. The files, used if there is none, contain
// "NAME=value" lines and # comments.
[[nodiscard]] bool asks_for_blocking(const std::optional<std::string>& variable,
                                     const std::vector<std::string>& conf_files);

}  // namespace muster::collective::nccl
