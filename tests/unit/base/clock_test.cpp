// SPDX-License-Identifier: Apache-2.0
#include "base/clock.hpp"

#include "support/catch.hpp"

#include <regex>

using namespace muster;

TEST_CASE("clock: steady time never goes back") {
  TimePoint last = steady_now();
  for (int i = 0; i < 1000; ++i) {
    const TimePoint now = steady_now();
    REQUIRE(now >= last);
    last = now;
  }
}

TEST_CASE("clock: wall time is after this was written and reads as a date") {
  const double now = wall_now_seconds();
  CHECK(now > 1.7e9);
  CHECK(std::regex_match(describe_wall_time(now),
                         std::regex("20\\d\\d-\\d\\d-\\d\\d_\\d\\d:\\d\\d:\\d\\d")));
}
