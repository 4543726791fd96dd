// SPDX-License-Identifier: Apache-2.0
// EndQueue: worker exits that were detected but not reported yet. Decides the order in which the
// first exits of an attempt are reported, because the agent treats the first failure as the root
// cause. A worker that uses a lot of memory is reaped long after the workers that exit because of
// its death. Part of LinuxRunner, which queries the kernel. Pure; value-like.
#pragma once

#include "base/time.hpp"
#include "process/values/process_runner.hpp"

#include <optional>
#include <utility>
#include <vector>

namespace muster {

// The first failure of an attempt is held back for at most this long if another worker is exiting
// and the kernel does not show its status yet. The kernel frees about 10 GiB of memory per second.
inline constexpr Duration kUnknownEndTime = std::chrono::seconds(2);

struct WorkerEnd {
  WorkerExit exit;
  bool reaped = false;       // if false, its memory is still being freed
  bool seen_ending = false;  // it was seen exiting before another failed worker was reaped
};

class EndQueue {
 public:
  void begin_attempt() { judged_ = false; }

  void add(WorkerEnd end) { ends_.push_back(std::move(end)); }

  // True if the first failure of this attempt is about to be reported. The caller then checks all
  // other workers and adds those that are known to be dying from a failure.
  [[nodiscard]] bool needs_look() const;

  // The exits to report now, in this order; empty while the first failure is held back. `unknown`:
  // another worker is exiting, and the kernel does not show its status.
  [[nodiscard]] std::vector<WorkerEnd> take(TimePoint now, bool unknown);

  // The deadline for calling take() while the first failure is held back.
  [[nodiscard]] std::optional<TimePoint> held_until() const { return held_until_; }

 private:
  std::vector<WorkerEnd> ends_;
  std::optional<TimePoint> held_until_;
  bool judged_ = false;  // a failure of this attempt has been reported
};

}  // namespace muster
