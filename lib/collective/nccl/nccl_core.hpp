// SPDX-License-Identifier: Apache-2.0
// What the back end decides, without NCCL and without a clock: how long a call that goes on in the
// background is polled, which operation is overdue, which results end a communicator. Pure.
#pragma once

#include "base/time.hpp"
#include "collective/error.hpp"

#include <optional>
#include <string>
#include <vector>

namespace muster::collective::nccl {

// ncclResult_t's numbers, so that the rules need no header of NVIDIA's.
inline constexpr int kSuccess = 0;
inline constexpr int kInProgress = 7;

// A call that may go on after it has returned, and is polled until it has ended.
class PollCore {
 public:
  struct Step {
    enum class Kind { ended, again, failed, late };
    Kind kind = Kind::ended;
    Duration pause{0};  // before the next poll
    bool operator==(const Step&) const = default;
  };

  // NCCL 2.28 queues each operation in a thread of its own, which takes some µs: a sleep would take
  // longer.
  static constexpr Duration kEager = std::chrono::microseconds(50);
  static constexpr Duration kFirstPause = std::chrono::microseconds(20);
  static constexpr Duration kLongestPause = std::chrono::milliseconds(2);

  explicit PollCore(TimePoint deadline) : deadline_(deadline) {}

  // `answer`: what the call or the poll returned.
  [[nodiscard]] Step next(int answer, TimePoint now);

 private:
  TimePoint deadline_;
  std::optional<TimePoint> first_asked_;
  Duration pause_ = kFirstPause;
};

// Any failure ends a non-blocking communicator: it keeps the result as its own.
[[nodiscard]] constexpr bool ends_communicator(int result) {
  return result != kSuccess && result != kInProgress;
}

// The clock of one operation. Work of the caller that is queued before it does not count: the time
// runs from when the GPU comes to it. But one that the GPU never comes to must end as well, so
// there is a second, longer limit from when it was queued.
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

// Whether NCCL would make communicators that cannot be aborted: NCCL_COMM_BLOCKING in the
// environment, or else in the first of the files that names it ("NAME=value" lines, # comments).
[[nodiscard]] bool asks_for_blocking(const std::optional<std::string>& variable,
                                     const std::vector<std::string>& conf_files);

}  // namespace muster::collective::nccl
