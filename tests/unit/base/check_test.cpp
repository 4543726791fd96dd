// SPDX-License-Identifier: Apache-2.0
#include "base/check.hpp"

#include "support/aborts.hpp"

using namespace muster;

TEST_CASE("check: a failed check prints the condition and its location, and aborts") {
  const std::string message = testing::abort_message([] { MUSTER_CHECK(1 + 1 == 3); });
  CHECK(message.find("1 + 1 == 3 is false at ") != std::string::npos);
  CHECK(message.find("check_test.cpp:") != std::string::npos);
}

TEST_CASE("check: a check that holds has no effect") {
  MUSTER_CHECK(1 + 1 == 2);
}
