// SPDX-License-Identifier: Apache-2.0
// IntervalTimer: periodically wakes a Watcher of a Poller while it is enabled. Used to poll for
// state changes that the kernel does not report. Used by LinuxRunner; single-threaded; resource.
#pragma once

#include "base/fd.hpp"
#include "base/time.hpp"
#include "process/loop/poller.hpp"

namespace muster {

class IntervalTimer {
 public:
  IntervalTimer(Poller& poller, Watcher& watcher, Duration interval)
      : poller_(poller), watcher_(watcher), interval_(interval) {}

  // Has no effect if no descriptor is available.
  void run(bool on);

  [[nodiscard]] bool is_running() const { return static_cast<bool>(fd_); }

  // True if it has fired since the last call.
  [[nodiscard]] bool take_tick() const;

 private:
  Poller& poller_;
  Watcher& watcher_;
  Duration interval_;
  UniqueFd fd_;
};

}  // namespace muster
