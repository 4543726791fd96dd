// SPDX-License-Identifier: Apache-2.0
// cvt.rn.f16.f32 and cvt.f32.f16 on bits: rounded to nearest even, subnormal numbers kept, and one
// pattern for all that is no number, as PTX says. By integers, so that neither compiler nor
// processor has a say. Pure.
#pragma once

#include <bit>
#include <cstdint>

namespace muster::fake {

[[nodiscard]] constexpr std::uint32_t shift_to_even(std::uint32_t value, unsigned shift) {
  const std::uint32_t half = 1U << (shift - 1);
  const std::uint32_t rest = value & ((half << 1) - 1);
  const std::uint32_t kept = value >> shift;
  return kept + ((rest > half || (rest == half && (kept & 1) != 0)) ? 1 : 0);
}

[[nodiscard]] constexpr std::uint16_t narrow_to_f16(std::uint32_t bits) {
  constexpr std::uint32_t kInfinity = 0x7f800000;
  constexpr std::uint32_t kTooBig = 0x477ff000;       // half a step above the biggest f16
  constexpr std::uint32_t kFirstNormal = 0x38800000;  // 2^-14
  const std::uint32_t sign = (bits >> 16) & 0x8000;
  const std::uint32_t size = bits & 0x7fffffff;
  if (size > kInfinity) {
    return 0x7fff;
  }
  if (size >= kTooBig) {
    return static_cast<std::uint16_t>(sign | 0x7c00);
  }
  const std::uint32_t exponent = size >> 23;
  if (size >= kFirstNormal) {
    return static_cast<std::uint16_t>(sign | shift_to_even(size - (112U << 23), 13));
  }
  // In steps of 2^-24; below half of one all is zero.
  const std::uint32_t mantissa = (size & 0x7fffff) | 0x800000;
  return static_cast<std::uint16_t>(sign |
                                    (exponent < 102 ? 0 : shift_to_even(mantissa, 126 - exponent)));
}

[[nodiscard]] constexpr std::uint32_t widen_from_f16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1f;
  const std::uint32_t mantissa = bits & 0x3ff;
  if (exponent == 0x1f) {
    return mantissa != 0 ? 0x7fffffff : sign | 0x7f800000;
  }
  if (exponent != 0) {
    return sign | ((exponent + 112) << 23) | (mantissa << 13);
  }
  // Both factors and the product are exact.
  return sign | std::bit_cast<std::uint32_t>(static_cast<float>(mantissa) * 0x1p-24F);
}

}  // namespace muster::fake
