// SPDX-License-Identifier: Apache-2.0
// CallerClock: CPU time of the thread that created it. Any thread may read it, even after the
// creating thread has exited. Value.
#pragma once

#include "base/time.hpp"

#include <ctime>
#include <optional>

#include <sys/syscall.h>
#include <unistd.h>

namespace muster::collective {

class CallerClock {
 public:
  // Encodes the kernel's clock id of a thread, like pthread_getcpuclockid(). Some systems on which
  // the library runs lack that function.
  CallerClock()
      : clock_(static_cast<clockid_t>(~static_cast<unsigned>(::syscall(SYS_gettid)) << 3U | 6U)) {}

  // Empty if the thread has exited.
  [[nodiscard]] std::optional<Duration> used() const {
    timespec time{};
    if (::clock_gettime(clock_, &time) != 0) {
      return std::nullopt;
    }
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }

  bool operator==(const CallerClock& other) const { return clock_ == other.clock_; }

 private:
  clockid_t clock_;
};

// A point in time on two clocks: the steady clock, and the CPU clock of the thread that created it.
struct CallerMoment {
  CallerClock clock{};
  TimePoint at{};
  std::optional<Duration> used = clock.used();
};

}  // namespace muster::collective
