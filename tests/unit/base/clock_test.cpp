// SPDX-License-Identifier: Apache-2.0
#include "base/clock.hpp"

#include "support/catch.hpp"

#include <string>

using namespace muster;

TEST_CASE("clock: steady time never goes backwards") {
  TimePoint last = steady_now();
  for (int i = 0; i < 1000; ++i) {
    const TimePoint now = steady_now();
    REQUIRE(now >= last);
    last = now;
  }
}

TEST_CASE("clock: a thread's CPU time grows as it computes, and never faster than real time") {
  const TimePoint began = steady_now();
  const Duration before = thread_cpu_time();
  Duration spent{};
  while (spent < std::chrono::milliseconds(2)) {
    spent = thread_cpu_time() - before;
  }
  CHECK(spent <= steady_now() - began);
}

TEST_CASE("clock: wall time is plausible and is formatted as a date") {
  const double now = wall_now_seconds();
  CHECK(now > 1.7e9);
  // The format, digit by digit.
  std::string shape = describe_wall_time(now);
  for (char& c : shape) {
    c = c >= '0' && c <= '9' ? '9' : c;
  }
  CHECK(shape == "9999-99-99_99:99:99");
}
