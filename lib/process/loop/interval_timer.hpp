// SPDX-License-Identifier: Apache-2.0
// IntervalTimer: wakes a Watcher of a Poller again and again while it is switched on. For states
// that the kernel does not report. Used by LinuxRunner; single-threaded; resource.
#pragma once

#include "base/fd.hpp"
#include "base/time.hpp"
#include "process/loop/poller.hpp"

namespace muster {

class IntervalTimer {
 public:
  IntervalTimer(Poller& poller, Watcher& watcher, Duration interval)
      : poller_(poller), watcher_(watcher), interval_(interval) {}

  // Without descriptors left it stays off.
  void run(bool on);

  // Whether it has gone off since the last call.
  [[nodiscard]] bool take_tick() const;

 private:
  Poller& poller_;
  Watcher& watcher_;
  Duration interval_;
  UniqueFd fd_;
};

}  // namespace muster
