// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.hpp"

#include "support/catch.hpp"

#include <cstdint>
#include <limits>

using namespace muster;

TEST_CASE("bytes: integers are written with the lowest byte first") {
  std::string out;
  append_int(out, std::uint32_t{0x01020304});
  append_int(out, std::uint8_t{0xff});
  CHECK(out == "\x04\x03\x02\x01\xff");
}

TEMPLATE_TEST_CASE("bytes: what is written is read back",
                   "",
                   std::uint8_t,
                   std::int32_t,
                   std::int64_t,
                   std::uint64_t) {
  using Limits = std::numeric_limits<TestType>;
  for (const TestType value : {Limits::min(), Limits::max(), TestType{0}, TestType{77}}) {
    std::string out = "before";
    append_int(out, value);
    CHECK(load_int<TestType>(std::string_view(out).substr(6)) == value);
  }
}
