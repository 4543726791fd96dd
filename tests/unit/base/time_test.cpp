// SPDX-License-Identifier: Apache-2.0
#include "base/time.hpp"

#include "support/catch.hpp"

using namespace muster;
using namespace std::chrono_literals;

TEST_CASE("time: durations are seconds, or numbers with units") {
  CHECK(parse_duration("30") == Duration(30s));
  CHECK(parse_duration("0.5") == Duration(500ms));
  CHECK(parse_duration("250ms") == Duration(250ms));
  CHECK(parse_duration("1m30s") == Duration(90s));
  CHECK(parse_duration("2h") == Duration(2h));
}

TEST_CASE("time: rejects garbage, negative and infinite durations") {
  for (const auto* text : {"", "-1", "x", "1x", "s", "nan", "inf", "1e99"}) {
    CHECK_FALSE(parse_duration(text).has_value());
  }
}

TEST_CASE("time: describes durations in a suitable unit") {
  CHECK(describe(Duration(1500ms)) == "1.5s");
  CHECK(describe(Duration(12ms)) == "12ms");
  CHECK(describe(Duration(40us)) == "40us");
  CHECK(describe(Duration(0)) == "0s");
}
