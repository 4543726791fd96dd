// SPDX-License-Identifier: Apache-2.0
#include "collective/kernels/kernels.hpp"

#include "support/catch.hpp"
#include "unit/collective/reference.hpp"

#include <array>
#include <limits>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace muster::collective {
namespace {

using testing::Bytes;

std::vector<Isa> isas() {
  std::vector<Isa> out;
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
    if (has(isa)) {
      out.push_back(isa);
    }
  }
  return out;
}

struct Case {
  Op op;
  DType dtype;
  std::size_t ranks;
  std::size_t count;
  double scale = 3;
};

std::vector<Bytes> inputs(const Case& c, std::uint64_t seed) {
  std::vector<Bytes> out;
  for (std::size_t r = 0; r < c.ranks; ++r) {
    out.push_back(testing::random_elements(c.dtype, c.count, seed + r));
  }
  return out;
}

// Elements from `first` on, read and written at odd addresses.
Bytes run(const Case& c, const std::vector<Bytes>& ranks, Isa isa, std::size_t first = 0) {
  const std::size_t skip = first * size_of(c.dtype);
  std::vector<Bytes> shifted;
  std::vector<const void*> sources;
  for (const Bytes& rank : ranks) {
    Bytes copy(rank.size() + 1);
    std::copy(rank.begin(), rank.end(), copy.begin() + 1);
    shifted.push_back(std::move(copy));
  }
  for (const Bytes& copy : shifted) {
    sources.push_back(copy.data() + 1 + skip);
  }
  Bytes out(ranks[0].size() - skip + 2, 'x');
  reduce({.op = c.op,
          .dtype = c.dtype,
          .scale = c.scale,
          .sources = sources.data(),
          .source_count = sources.size(),
          .count = c.count - first},
         out.data() + 1,
         isa);
  CHECK(out.front() == 'x');
  CHECK(out.back() == 'x');
  return {out.begin() + 1, out.end() - 1};
}

std::vector<const Bytes*> pointers(const std::vector<Bytes>& ranks) {
  std::vector<const Bytes*> out;
  for (const Bytes& rank : ranks) {
    out.push_back(&rank);
  }
  return out;
}

void check_case(const Case& c, std::uint64_t seed) {
  const auto ranks = inputs(c, seed);
  const Bytes plain = run(c, ranks, Isa::portable);
  CHECK(testing::compare(plain, {c.op, c.dtype, c.scale}, pointers(ranks)) == "");
  for (const Isa isa : isas()) {
    INFO(name_of(isa) << " " << name_of(c.op) << " " << name_of(c.dtype) << " x" << c.count);
    CHECK(run(c, ranks, isa) == plain);
    if (c.count > 3) {
      CHECK(run(c, ranks, isa, 3) ==
            Bytes(plain.begin() + static_cast<std::ptrdiff_t>(3 * size_of(c.dtype)), plain.end()));
    }
  }
}

TEST_CASE("reduce: each operation and type equals the reference, with the same bits everywhere") {
  const muster::testing::Seed seed;
  INFO(seed.describe());
  for (const Op op : testing::kAllOps) {
    for (const DType dtype : testing::kHostTypes) {
      for (const std::size_t ranks : {1U, 2U, 3U, 8U}) {
        for (const std::size_t count : {0U, 1U, 7U, 64U, 1023U}) {
          check_case({op, dtype, ranks, count}, seed.value());
        }
      }
    }
  }
}

TEST_CASE("reduce: in place") {
  const Case c{Op::sum, DType::f32, 3, 501};
  auto ranks = inputs(c, 7);
  const Bytes want = run(c, ranks, best_isa());
  const std::array<const void*, 3> sources{ranks[0].data(), ranks[1].data(), ranks[2].data()};
  reduce({.sources = sources.data(), .source_count = 3, .count = c.count}, ranks[1].data());
  CHECK(ranks[1] == want);
}

TEST_CASE("reduce: any bit patterns give the same bits, or a NaN, with every instruction set") {
  const muster::testing::Seed seed;
  INFO(seed.describe());
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    muster::testing::Dice dice(seed.value());
    std::vector<Bytes> ranks;
    for (int r = 0; r < 3; ++r) {
      const std::string bytes = dice.bytes(4096 * size_of(dtype));
      ranks.emplace_back(bytes.begin(), bytes.end());
    }
    for (const Op op : testing::kAllOps) {
      const Case c{op, dtype, 3, 4096, 0.3};
      const Bytes plain = run(c, ranks, Isa::portable);
      for (const Isa isa : isas()) {
        const Bytes other = run(c, ranks, isa);
        for (std::size_t i = 0; i < c.count; ++i) {
          const bool both_nan = std::isnan(testing::element(plain, dtype, i)) &&
                                std::isnan(testing::element(other, dtype, i));
          if (!both_nan && std::memcmp(plain.data() + i * size_of(dtype),
                                       other.data() + i * size_of(dtype),
                                       size_of(dtype)) != 0) {
            FAIL(name_of(isa) << " " << name_of(op) << " " << name_of(dtype) << " at " << i);
          }
        }
      }
    }
  }
}

TEST_CASE("reduce: a NaN on any rank gives NaN") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::array<float, 1> bad{nan};
  const std::array<float, 1> good{1};
  for (const Op op : testing::kAllOps) {
    for (const Isa isa : isas()) {
      for (const bool first : {true, false}) {
        const std::array<const void*, 2> sources{first ? bad.data() : good.data(),
                                                 first ? good.data() : bad.data()};
        float out = 0;
        reduce({.op = op, .sources = sources.data(), .source_count = 2, .count = 1}, &out, isa);
        CHECK(std::isnan(out));
      }
    }
  }
}

template <int Exponent, int Mantissa>
void check_conversions(DType dtype) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<std::uint16_t>(i);
  }
  for (const Isa isa : isas()) {
    std::vector<float> wide(all.size());
    widen(dtype, all.data(), wide.data(), all.size(), isa);
    std::vector<std::uint16_t> back(all.size());
    narrow(dtype, wide.data(), back.data(), wide.size(), isa);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double want = testing::decode_small(all[i], Exponent, Mantissa);
      const bool right =
          std::isnan(want) ? std::isnan(wide[i]) : wide[i] == static_cast<float>(want);
      const bool same = std::isnan(want)
                            ? std::isnan(testing::decode_small(back[i], Exponent, Mantissa))
                            : back[i] == all[i];
      if (!right || !same) {
        FAIL(name_of(isa) << " " << name_of(dtype) << " bits " << i);
      }
    }
  }
}

TEST_CASE("widen and narrow: every f16 and bf16 number survives") {
  check_conversions<5, 10>(DType::f16);
  check_conversions<8, 7>(DType::bf16);
}

TEST_CASE("narrow: rounds to nearest even, like the reference") {
  const muster::testing::Seed seed;
  INFO(seed.describe());
  muster::testing::Dice dice(seed.value());
  std::vector<float> floats{0.0F,
                            -0.0F,
                            65504.0F,
                            65519.99F,
                            65520.0F,
                            1e38F,
                            5.9604645e-8F,
                            2.9802322e-8F,
                            2.99e-8F,
                            6.1e-5F,
                            1e-45F,
                            INFINITY,
                            -INFINITY};
  for (int i = 0; i < 200000; ++i) {
    const auto bits = static_cast<std::uint32_t>(dice.below(1ULL << 32));
    floats.push_back(std::bit_cast<float>(i % 2 == 0 ? bits : (bits & 0x8fffffff) | 0x30000000));
  }
  for (const Isa isa : isas()) {
    std::vector<std::uint16_t> half(floats.size());
    std::vector<std::uint16_t> brain(floats.size());
    narrow(DType::f16, floats.data(), half.data(), floats.size(), isa);
    narrow(DType::bf16, floats.data(), brain.data(), floats.size(), isa);
    for (std::size_t i = 0; i < floats.size(); ++i) {
      const auto value = static_cast<double>(floats[i]);
      if (!std::isnan(value) && (half[i] != testing::encode_small(value, 5, 10) ||
                                 brain[i] != testing::encode_small(value, 8, 7))) {
        FAIL(name_of(isa) << " " << floats[i] << ": " << half[i] << ", " << brain[i]);
      }
    }
  }
}

#if defined(__x86_64__)
TEST_CASE("reduce: a program that flushes denormals to zero gets the same bits") {
  const std::array<float, 1> tiny{1e-40F};
  const std::array<const void*, 2> sources{tiny.data(), tiny.data()};
  float want = 0;
  reduce({.sources = sources.data(), .source_count = 2, .count = 1}, &want);
  float have = 0;
  const auto before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);
  reduce({.sources = sources.data(), .source_count = 2, .count = 1}, &have);
  const auto after = _mm_getcsr();
  _mm_setcsr(before);
  CHECK((after & 0x8040) == 0x8040);
  CHECK(std::bit_cast<std::uint32_t>(have) == std::bit_cast<std::uint32_t>(want));
  CHECK(std::bit_cast<std::uint32_t>(want) != 0);
}
#endif

}  // namespace
}  // namespace muster::collective
