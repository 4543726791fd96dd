// SPDX-License-Identifier: Apache-2.0
#include "agent/store/store_address.hpp"

#include "support/catch.hpp"

using namespace muster;

TEST_CASE("store place: looks up only names that are neither numeric nor localhost") {
  for (const char* known : {"127.0.0.1", "::1", "10.1.2.3", "localhost"}) {
    CHECK_FALSE(needs_lookup(known));
  }
  CHECK(needs_lookup("node7"));
  CHECK(needs_lookup("node7.example.org"));
}

TEST_CASE("store place: numeric addresses stay unchanged, localhost becomes 127.0.0.1") {
  CHECK(numeric_address("10.1.2.3") == "10.1.2.3");
  CHECK(numeric_address("::1") == "::1");
  CHECK(numeric_address("localhost") == "127.0.0.1");
}
