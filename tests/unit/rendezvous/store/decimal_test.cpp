// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/decimal.hpp"

#include "support/catch.hpp"

#include <limits>

using namespace muster;

TEST_CASE("decimal: parses text like strtoll") {
  CHECK(leading_decimal("5") == 5);
  CHECK(leading_decimal(" 12x") == 12);
  CHECK(leading_decimal("\t\n-7") == -7);
  CHECK(leading_decimal("+3") == 3);
  CHECK(leading_decimal("9223372036854775807") == std::numeric_limits<std::int64_t>::max());
  CHECK(leading_decimal("-9223372036854775808") == std::numeric_limits<std::int64_t>::min());
}

TEST_CASE("decimal: rejects text that is not a number or does not fit") {
  for (const char* text : {"", " ", "x", "-", "+", "+-1", "9223372036854775808"}) {
    INFO(text);
    CHECK_FALSE(leading_decimal(text));
  }
}

TEST_CASE("decimal: formats numbers that parse to themselves") {
  for (const std::int64_t number : {std::int64_t{0},
                                    std::int64_t{-1},
                                    std::numeric_limits<std::int64_t>::max(),
                                    std::numeric_limits<std::int64_t>::min()}) {
    CHECK(leading_decimal(DecimalText(number).view()) == number);
  }
  CHECK(DecimalText(21).view() == "21");
}
