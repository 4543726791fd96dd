// SPDX-License-Identifier: Apache-2.0
#include "process/loop/interval_timer.hpp"

#include <cstdint>

#include <sys/timerfd.h>
#include <unistd.h>

namespace muster {

void IntervalTimer::run(bool on) {
  if (on == static_cast<bool>(fd_)) {
    return;
  }
  if (!on) {
    poller_.forget(fd_.get());
    fd_.reset();
    return;
  }
  fd_ = UniqueFd(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  itimerspec every{};
  every.it_interval.tv_nsec = interval_.count();
  every.it_value = every.it_interval;
  if (fd_ && ::timerfd_settime(fd_.get(), 0, &every, nullptr) == 0) {
    [[maybe_unused]] const auto watched = poller_.watch_input(fd_.get(), watcher_);
  }
}

bool IntervalTimer::take_tick() const {
  std::uint64_t ticks = 0;
  return fd_ && ::read(fd_.get(), &ticks, sizeof(ticks)) > 0;
}

}  // namespace muster
