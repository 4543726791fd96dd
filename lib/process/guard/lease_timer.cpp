// SPDX-License-Identifier: Apache-2.0
#include "process/guard/lease_timer.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace muster {
namespace {

// Zero would disarm the timer.
itimerspec at(Duration since_boot) {
  const Duration when = std::max<Duration>(since_boot, std::chrono::nanoseconds(1));
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(when);
  itimerspec spec{};
  spec.it_value.tv_sec = seconds.count();
  spec.it_value.tv_nsec = (when - seconds).count();
  return spec;
}

}  // namespace

Result<LeaseTimer> LeaseTimer::make(Duration lease) {
  MUSTER_CHECK(lease > Duration::zero());
  UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!timer) {
    return std::unexpected(system_error("cannot create the lease timer", errno));
  }
  UniqueFd fences(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!fences) {
    return std::unexpected(system_error("cannot create the lease counter", errno));
  }
  return LeaseTimer(lease, std::move(timer), std::move(fences));
}

void LeaseTimer::run_until(TimePoint when) const {
  const itimerspec spec = at(when.time_since_epoch());
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

void LeaseTimer::rest() const {
  const itimerspec never{};
  ::timerfd_settime(timer_.get(), 0, &never, nullptr);
}

bool LeaseTimer::is_running() const {
  itimerspec left{};
  return ::timerfd_gettime(timer_.get(), &left) == 0 &&
         (left.it_value.tv_sec != 0 || left.it_value.tv_nsec != 0);
}

void LeaseTimer::note_fence() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(fences_.get(), &one, sizeof(one));
}

bool LeaseTimer::take_fence() const {
  std::uint64_t times = 0;
  return ::read(fences_.get(), &times, sizeof(times)) == sizeof(times);
}

bool LeaseTimer::take_expired() const {
  std::uint64_t times = 0;
  return ::read(timer_.get(), &times, sizeof(times)) == sizeof(times);
}

}  // namespace muster
