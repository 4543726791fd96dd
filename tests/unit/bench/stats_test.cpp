// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/stats.hpp"

#include "support/catch.hpp"

using namespace muster::bench;

TEST_CASE("stats: the median of an odd number of samples is the one in the middle") {
  CHECK(summarize({5, 1, 9}) == Summary{5, 1, 9});
  CHECK(summarize({4}) == Summary{4, 4, 4});
}

TEST_CASE("stats: the median of an even number of samples lies between the two in the middle") {
  CHECK(summarize({1, 2, 10, 4}) == Summary{3, 1, 10});
}

TEST_CASE("stats: numbers are shown with three digits") {
  CHECK(readable(0) == "0");
  CHECK(readable(0.41234) == "0.412");
  CHECK(readable(7.3451) == "7.35");
  CHECK(readable(315.4) == "315");
  CHECK(readable(9990) == "9990");
  CHECK(readable(153'412) == "153k");
  CHECK(readable(999'600) == "1.00M");
  CHECK(readable(2'684'000) == "2.68M");
}
