// SPDX-License-Identifier: Apache-2.0
// The simple reference of the collective tests: elements as doubles, operations in rank order in
// double precision (integers in 64-bit words that wrap), and the permitted error of a result.
// Written without the library's kernels.
#pragma once

#include "collective/types.hpp"
#include "support/seed.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace muster::collective::testing {

using Bytes = std::vector<char>;

inline constexpr DType kHostTypes[] = {DType::i8,
                                       DType::u8,
                                       DType::i32,
                                       DType::u32,
                                       DType::i64,
                                       DType::u64,
                                       DType::f16,
                                       DType::f32,
                                       DType::f64,
                                       DType::bf16};
inline constexpr Op kAllOps[] = {Op::sum, Op::prod, Op::max, Op::min, Op::avg, Op::premul_sum};

inline bool is_float(DType t) {
  return t == DType::f16 || t == DType::f32 || t == DType::f64 || t == DType::bf16;
}

template <class T>
T get(const Bytes& bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void put(Bytes& bytes, std::size_t index, T value) {
  std::memcpy(bytes.data() + index * sizeof(T), &value, sizeof(T));
}

// The value of a floating-point format with this number of exponent and mantissa bits.
inline double decode_small(std::uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return mantissa != 0 ? NAN : sign * HUGE_VAL;
  }
  if (exponent == 0) {
    return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  }
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

// Rounds to nearest, ties to even. Preserves NaN.
inline std::uint16_t encode_small(double value, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const int infinite = ((1 << exponent_bits) - 1) << mantissa_bits;
  if (std::isnan(value)) {
    return static_cast<std::uint16_t>(sign | infinite | 1 << (mantissa_bits - 1));
  }
  const double size = std::fabs(value);
  if (size == 0 || std::isinf(size)) {
    return static_cast<std::uint16_t>(sign | (size == 0 ? 0 : infinite));
  }
  const int exponent = std::max(std::ilogb(size), 1 - bias);
  // In units of the last place; nearbyint rounds ties to even.
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(size, mantissa_bits - exponent)));
  const int bits = ((exponent + bias - 1) << mantissa_bits) + units;
  return static_cast<std::uint16_t>(sign | std::min(bits, infinite));
}

inline double element(const Bytes& bytes, DType dtype, std::size_t i) {
  switch (dtype) {
    case DType::i8:
      return get<std::int8_t>(bytes, i);
    case DType::u8:
      return get<std::uint8_t>(bytes, i);
    case DType::i32:
      return get<std::int32_t>(bytes, i);
    case DType::u32:
      return get<std::uint32_t>(bytes, i);
    case DType::i64:
      return static_cast<double>(get<std::int64_t>(bytes, i));
    case DType::u64:
      return static_cast<double>(get<std::uint64_t>(bytes, i));
    case DType::f16:
      return decode_small(get<std::uint16_t>(bytes, i), 5, 10);
    case DType::bf16:
      return decode_small(get<std::uint16_t>(bytes, i), 8, 7);
    case DType::f32:
      return static_cast<double>(get<float>(bytes, i));
    default:
      return get<double>(bytes, i);
  }
}

// The integer, sign-extended to 64 bits.
inline std::uint64_t integer(const Bytes& bytes, DType dtype, std::size_t i) {
  switch (dtype) {
    case DType::i8:
      return static_cast<std::uint64_t>(std::int64_t{get<std::int8_t>(bytes, i)});
    case DType::u8:
      return get<std::uint8_t>(bytes, i);
    case DType::i32:
      return static_cast<std::uint64_t>(std::int64_t{get<std::int32_t>(bytes, i)});
    case DType::u32:
      return get<std::uint32_t>(bytes, i);
    default:
      return get<std::uint64_t>(bytes, i);
  }
}

// Truncated to the width of the type and sign-extended again.
inline std::uint64_t wrapped(std::uint64_t value, DType dtype) {
  Bytes bytes(8);
  put(bytes, 0, value);
  return integer(bytes, dtype, 0);
}

inline bool is_signed(DType t) {
  return t == DType::i8 || t == DType::i32 || t == DType::i64;
}

inline bool less(std::uint64_t a, std::uint64_t b, DType dtype) {
  return is_signed(dtype) ? static_cast<std::int64_t>(a) < static_cast<std::int64_t>(b) : a < b;
}

// How the elements of all ranks are combined.
struct Fold {
  Op op = Op::sum;
  DType dtype = DType::f32;
  double scale = 1;  // factor of premul_sum
  // The number of hosts whose f16 and bf16 results are rounded on the way; 0: rounded only once.
  int hosts = 0;
};

inline std::uint64_t fold_integers(const Fold& fold,
                                   const std::vector<const Bytes*>& ranks,
                                   std::size_t i) {
  const auto [op, dtype, scale, hosts] = fold;
  const auto factor = static_cast<std::uint64_t>(static_cast<std::int64_t>(scale));
  const auto taken = [&](std::size_t r) {
    return integer(*ranks[r], dtype, i) * (op == Op::premul_sum ? factor : 1);
  };
  std::uint64_t all = taken(0);
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    const std::uint64_t x = taken(r);
    if (op == Op::min || op == Op::max) {
      all = less(x, all, dtype) == (op == Op::min) ? x : all;
    } else {
      all = op == Op::prod ? all * x : all + x;
    }
  }
  all = wrapped(all, dtype);
  if (op != Op::avg) {
    return all;
  }
  const auto n = static_cast<std::uint64_t>(ranks.size());
  return is_signed(dtype) ? static_cast<std::uint64_t>(static_cast<std::int64_t>(all) /
                                                       static_cast<std::int64_t>(n))
                          : all / n;
}

struct Expected {
  double value = 0;
  double tolerance = 0;
};

inline double unit_of(DType t) {
  return t == DType::f64    ? std::ldexp(1, -52)
         : t == DType::f32  ? std::ldexp(1, -23)
         : t == DType::bf16 ? std::ldexp(1, -8)
                            : std::ldexp(1, -11);
}

// The permitted error of the final result that comes from rounding each host's result.
inline double rounding_of_hosts(const Fold& fold, double size, const Expected& result) {
  const bool is_product = fold.op == Op::prod;
  const double off = is_product ? fold.hosts * std::fabs(result.value) : size;
  // The smallest f16 numbers are 2^-24 apart, and other factors are below 4.
  const double least = fold.dtype == DType::f16 ? std::ldexp(fold.hosts, -25) : 0;
  return 1.02 * off * unit_of(fold.dtype) + least * (is_product ? 4 : 1);
}

inline Expected fold_floats(const Fold& fold,
                            const std::vector<const Bytes*>& ranks,
                            std::size_t i) {
  const auto [op, dtype, scale, hosts] = fold;
  double all = element(*ranks[0], dtype, i) * (op == Op::premul_sum ? scale : 1);
  double size = std::fabs(all);
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    const double x = element(*ranks[r], dtype, i) * (op == Op::premul_sum ? scale : 1);
    size += std::fabs(x);
    all = op == Op::prod  ? all * x
          : op == Op::max ? std::max(all, x)
          : op == Op::min ? std::min(all, x)
                          : all + x;
  }
  if (op == Op::avg) {
    all /= static_cast<double>(ranks.size());
  }
  if (op == Op::min || op == Op::max) {
    return {all, 0};
  }
  const bool wide = dtype == DType::f32 || dtype == DType::f64;
  const double steps = wide ? static_cast<double>(ranks.size()) + 1 : 1.01;
  const double base = op == Op::prod || !wide ? std::fabs(all) : size;
  const double inside = wide ? 0 : size * std::ldexp(static_cast<double>(ranks.size()), -23);
  // The smallest f16 numbers are 2^-24 apart.
  const double least = dtype == DType::f16 ? std::ldexp(1, -25) : 0;
  Expected out{all, steps * unit_of(dtype) * base + inside + least};
  out.tolerance += wide || hosts == 0 ? 0 : rounding_of_hosts(fold, size, out);
  return out;
}

// "" or a description of the first wrong element.
inline std::string compare(const Bytes& result,
                           const Fold& fold,
                           const std::vector<const Bytes*>& ranks) {
  const DType dtype = fold.dtype;
  for (std::size_t i = 0; i < result.size() / size_of(dtype); ++i) {
    std::string found;
    if (is_float(dtype)) {
      const Expected want = fold_floats(fold, ranks, i);
      const double have = element(result, dtype, i);
      found = std::fabs(have - want.value) <= want.tolerance
                  ? ""
                  : std::to_string(have) + ", not " + std::to_string(want.value);
    } else {
      const std::uint64_t want = fold_integers(fold, ranks, i);
      const std::uint64_t have = integer(result, dtype, i);
      found = have == want ? "" : std::to_string(have) + ", not " + std::to_string(want);
    }
    if (!found.empty()) {
      return std::string(name_of(fold.op)) + " " + std::string(name_of(dtype)) + "[" +
             std::to_string(i) + "] is " + found;
    }
  }
  return "";
}

// Random elements: floats between -2 and 2, integers of all sizes.
inline Bytes random_elements(DType dtype, std::size_t count, std::uint64_t seed) {
  std::uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  const auto next = [&state] {  // xorshift64*, because buffers are large
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1d;
  };
  Bytes out(count * size_of(dtype));
  for (std::size_t i = 0; i < count; ++i) {
    const double value = static_cast<double>(next() >> 38) * 0x1p-24 - 2;
    if (!is_float(dtype)) {
      const std::uint64_t bits = next();
      std::memcpy(out.data() + i * size_of(dtype), &bits, size_of(dtype));
    } else if (dtype == DType::f64) {
      put(out, i, value);
    } else if (dtype == DType::f32) {
      put(out, i, static_cast<float>(value));
    } else {
      put(out, i, dtype == DType::f16 ? encode_small(value, 5, 10) : encode_small(value, 8, 7));
    }
  }
  return out;
}

}  // namespace muster::collective::testing
