// SPDX-License-Identifier: Apache-2.0
// The conversions of f16 against the compiler's own, and those that PTX has otherwise.
#include "fakes/cuda/ptx_half.hpp"
#include "support/catch.hpp"

#include <cmath>

namespace muster::testing {
namespace {

using fake::narrow_to_f16;
using fake::widen_from_f16;

// __extension__: it is no type of ISO C++.
__extension__ using Half = _Float16;

std::uint16_t expected_narrow(std::uint32_t bits) {
  const auto value = std::bit_cast<float>(bits);
  return std::isnan(value) ? 0x7fff : std::bit_cast<std::uint16_t>(static_cast<Half>(value));
}

TEST_CASE("f16: each value becomes the f32 that the compiler makes of it, and comes back") {
  int wrong = 0;
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const auto expected = static_cast<float>(std::bit_cast<Half>(bits));
    const std::uint32_t wide = widen_from_f16(bits);
    const bool right = std::isnan(expected) ? wide == 0x7fffffff && narrow_to_f16(wide) == 0x7fff
                                            : wide == std::bit_cast<std::uint32_t>(expected) &&
                                                  narrow_to_f16(wide) == bits;
    wrong += right ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEST_CASE("f16: an f32 is rounded as the compiler does it") {
  std::uint32_t first_wrong = 0;
  int wrong = 0;
  const auto check = [&](std::uint32_t bits) {
    if (narrow_to_f16(bits) != expected_narrow(bits)) {
      first_wrong = wrong++ == 0 ? bits : first_wrong;
    }
  };
  // Each f16, its neighbour, what is halfway between them, and next to all of these.
  for (std::uint32_t half = 0; half < 0xfc00; ++half) {
    const std::uint32_t bits = widen_from_f16(static_cast<std::uint16_t>(half));
    const std::uint32_t next = widen_from_f16(static_cast<std::uint16_t>(half + 1));
    const std::uint32_t middle = bits + (next - bits) / 2;
    for (const std::uint32_t center : {bits, middle, next}) {
      check(center - 1);
      check(center);
      check(center + 1);
    }
  }
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 4099) {
    check(static_cast<std::uint32_t>(bits));
  }
  CAPTURE(first_wrong);
  CHECK(wrong == 0);
}

TEST_CASE("f16: by hand") {
  CHECK(narrow_to_f16(0x3f800000) == 0x3c00);  // 1
  CHECK(narrow_to_f16(0x80000000) == 0x8000);  // -0
  CHECK(narrow_to_f16(0x477fefff) == 0x7bff);  // just below 65520: the biggest one
  CHECK(narrow_to_f16(0x477ff000) == 0x7c00);  // 65520: infinity
  CHECK(narrow_to_f16(0xff800000) == 0xfc00);  // -infinity
  CHECK(narrow_to_f16(0x33000000) == 0);       // half of the smallest one: to even
  CHECK(narrow_to_f16(0x33000001) == 1);
  CHECK(narrow_to_f16(0xffc00001) == 0x7fff);  // no number: one pattern, without its sign
}

}  // namespace
}  // namespace muster::testing
