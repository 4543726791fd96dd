// SPDX-License-Identifier: Apache-2.0
#include "base/plural.hpp"

#include "support/catch.hpp"

#include <cstddef>

using namespace muster;

TEST_CASE("plural: a counted noun agrees with its number") {
  CHECK(counted(0, "worker") == "0 workers");
  CHECK(counted(1, "worker") == "1 worker");
  CHECK(counted(std::size_t{3}, "other rank") == "3 other ranks");
}

TEST_CASE("plural: an irregular noun has its own plural") {
  CHECK(counted(1, "process", "processes") == "1 process");
  CHECK(counted(0, "process", "processes") == "0 processes");
  CHECK(counted(2, "process that runs", "processes that run") == "2 processes that run");
}

TEST_CASE("plural: a verb agrees with the number of its subjects") {
  CHECK(is_are(0) == "are");
  CHECK(is_are(1) == "is");
  CHECK(is_are(2) == "are");
  CHECK(agreeing(1, "waits", "wait") == "waits");
  CHECK(agreeing(4, "waits", "wait") == "wait");
}

TEST_CASE("plural: ranks are listed after a noun that agrees with their number") {
  CHECK(name_ranks({3}) == "rank 3");
  CHECK(name_ranks({0, 2, 3}) == "ranks 0, 2, 3");
  CHECK(name_ranks({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) == "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
}
