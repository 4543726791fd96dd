// SPDX-License-Identifier: Apache-2.0
// EndQueue: ends of workers that were seen and are not reported yet. Decides the order in which the
// first ends of an attempt are reported, because the agent takes the first failure for the root
// cause: a worker that dies with much memory is reaped long after the peers that exit because of
// its death. Part of LinuxRunner, which asks the kernel. Pure; value-like.
#pragma once

#include "base/time.hpp"
#include "process/values/process_runner.hpp"

#include <optional>
#include <utility>
#include <vector>

namespace muster {

// The first failure of an attempt waits at most this long for another worker that is ending while
// the kernel does not show how. The kernel frees 10 GiB a second.
inline constexpr Duration kUnknownEndTime = std::chrono::seconds(2);

struct WorkerEnd {
  WorkerExit exit;
  bool reaped = false;       // else its memory is still being freed
  bool seen_ending = false;  // before a failure of another worker was reaped
};

class EndQueue {
 public:
  void begin_attempt() { judged_ = false; }

  void add(WorkerEnd end) { ends_.push_back(std::move(end)); }

  // A failure is about to be reported, and none was in this attempt. The caller then looks at all
  // other workers and adds those that are known to die of a failure.
  [[nodiscard]] bool needs_look() const;

  // What to report now, in this order; empty while the first failure waits. `unknown`: another
  // worker is ending, and the kernel does not show how.
  [[nodiscard]] std::vector<WorkerEnd> take(TimePoint now, bool unknown);

  // While the first failure waits: when to call take at the latest.
  [[nodiscard]] std::optional<TimePoint> held_until() const { return held_until_; }

 private:
  std::vector<WorkerEnd> ends_;
  std::optional<TimePoint> held_until_;
  bool judged_ = false;  // a failure of this attempt has been reported
};

}  // namespace muster
