// SPDX-License-Identifier: Apache-2.0
// CallerClock: how much of a processor the thread that made it has used. Any thread may ask, also
// when that one has ended. Value.
#pragma once

#include "base/time.hpp"

#include <ctime>
#include <optional>

#include <sys/syscall.h>
#include <unistd.h>

namespace muster::collective {

class CallerClock {
 public:
  // The kernel's name for the clock of a thread, as pthread_getcpuclockid gives it: that function
  // is too new for the systems on which the library runs.
  CallerClock()
      : clock_(static_cast<clockid_t>(~static_cast<unsigned>(::syscall(SYS_gettid)) << 3U | 6U)) {}

  // None: it has ended.
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

// A moment of such a thread.
struct CallerMoment {
  CallerClock clock{};
  TimePoint at{};
  std::optional<Duration> used = clock.used();
};

}  // namespace muster::collective
