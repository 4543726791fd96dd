// SPDX-License-Identifier: Apache-2.0
#include "process/guard/lease_timer.hpp"

#include "base/clock.hpp"
#include "support/catch.hpp"

#include <poll.h>

using namespace muster;
using namespace std::chrono_literals;

namespace {

bool goes_off(const LeaseTimer& timer, int within_ms) {
  pollfd ready{.fd = timer.fd(), .events = POLLIN, .revents = 0};
  return ::poll(&ready, 1, within_ms) == 1;
}

}  // namespace

TEST_CASE("lease timer: fires once, when the deadline has passed") {
  const LeaseTimer timer = *LeaseTimer::make(1s);
  CHECK_FALSE(goes_off(timer, 0));
  timer.run_until(steady_now() + 10ms);
  CHECK(goes_off(timer, 10'000));
  CHECK(timer.take_expired());
  CHECK_FALSE(timer.take_expired());
  CHECK_FALSE(goes_off(timer, 0));
}

TEST_CASE("lease timer: a deadline in the past is due at once, even the epoch") {
  const LeaseTimer timer = *LeaseTimer::make(1s);
  timer.run_until(GENERATE(TimePoint{}, steady_now() - 1s));
  CHECK(goes_off(timer, 10'000));
  CHECK(timer.take_expired());
}

TEST_CASE("lease timer: the guard sees whether workers may run, the agent that they were killed") {
  const LeaseTimer timer = *LeaseTimer::make(1s);
  CHECK_FALSE(timer.is_running());
  timer.run_until(steady_now() + 1h);
  CHECK(timer.is_running());
  timer.rest();
  CHECK_FALSE(timer.is_running());
  timer.run_until(steady_now());
  REQUIRE(goes_off(timer, 10'000));
  CHECK_FALSE(timer.is_running());
  CHECK_FALSE(timer.take_fence());
  timer.note_fence();
  timer.note_fence();
  CHECK(timer.take_fence());
  CHECK_FALSE(timer.take_fence());
}

TEST_CASE("lease timer: a later deadline replaces one that is due but was not read") {
  const LeaseTimer timer = *LeaseTimer::make(1s);
  timer.run_until(steady_now());
  REQUIRE(goes_off(timer, 10'000));
  if (GENERATE(false, true)) {
    timer.rest();
  } else {
    timer.run_until(steady_now() + 1h);
  }
  CHECK_FALSE(timer.take_expired());
  CHECK_FALSE(goes_off(timer, 0));
}
