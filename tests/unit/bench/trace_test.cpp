// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/trace.hpp"

#include "support/catch.hpp"

using namespace muster::bench;

TEST_CASE("trace: recovery lasts from the crash to the last start of the next attempt") {
  CHECK(recoveries_of("start 0 0 1000000\n"
                      "start 0 1 2000000\n"
                      "crash 0 0 5000000\n"
                      "start 1 1 9000000\n"
                      "start 1 0 8500000\n",
                      2) == std::vector<double>{4.0});
}

TEST_CASE("trace: a crash before all workers of its attempt ran does not count") {
  CHECK(recoveries_of("start 0 0 1\ncrash 0 0 2\nstart 0 1 3\nstart 1 0 4\nstart 1 1 5\n", 2)
            .empty());
  CHECK(recoveries_of("start 0 0 1\ncrash 0 0 2\nstart 1 0 4\nstart 1 1 5\n", 2).empty());
}

TEST_CASE("trace: a crash that no complete attempt follows does not count") {
  CHECK(recoveries_of("start 0 0 1\nstart 0 1 1\ncrash 0 0 2\nstart 1 0 3\n", 2).empty());
  CHECK(recoveries_of("start 0 0 1\nstart 0 1 1\ncrash 0 0 2\n", 2).empty());
  CHECK(recoveries_of("", 2).empty());
}
