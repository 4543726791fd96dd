// SPDX-License-Identifier: Apache-2.0
// Vectors, and loads and stores for each element type. Only kernel_loops.hpp includes this file,
// once in each kernels_<isa>.cpp, which sets the vector width. Everything is in an unnamed
// namespace, so that the linker never merges functions compiled for different CPUs. For the same
// reason, this code avoids inline functions of the standard library.
#pragma once

#include <cstddef>
#include <cstdint>

#ifndef MUSTER_VECTOR_BYTES
#define MUSTER_VECTOR_BYTES 16
#endif
#if MUSTER_VECTOR_BYTES > 16
#include <immintrin.h>
#endif

namespace muster::collective {
namespace {

constexpr std::size_t kWidth = MUSTER_VECTOR_BYTES;

template <class Lane, std::size_t Bytes = kWidth>
struct VectorOf {
  typedef Lane Type __attribute__((vector_size(Bytes)));
};

template <class Lane, std::size_t Bytes = kWidth>
using Vector = typename VectorOf<Lane, Bytes>::Type;

template <class To, class From>
[[gnu::always_inline]] inline To same_bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}

template <class V>
[[gnu::always_inline]] inline V load(const void* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof(v));
  return v;
}

template <class V>
[[gnu::always_inline]] inline void store(void* to, const V& v) {
  __builtin_memcpy(to, &v, sizeof(v));
}

using Words = Vector<std::uint32_t>;
using Floats = Vector<float>;
using Halves = Vector<std::uint16_t, kWidth / 2>;

// Convert between 16-bit elements and the 32-bit lanes used for arithmetic. They use intrinsics
// because the compiler would otherwise generate several instructions.
[[gnu::always_inline]] inline Words spread(const char* from) {
#if MUSTER_VECTOR_BYTES == 64
  return same_bits<Words>(_mm512_maskz_cvtepu16_epi32(0xffff, load<__m256i>(from)));
#elif MUSTER_VECTOR_BYTES == 32
  return same_bits<Words>(_mm256_cvtepu16_epi32(load<__m128i>(from)));
#else
  return __builtin_convertvector(load<Halves>(from), Words);
#endif
}

[[gnu::always_inline]] inline void put_low_halves(char* to, const Words& words) {
#if MUSTER_VECTOR_BYTES == 64
  store(to, _mm512_maskz_cvtepi32_epi16(0xffff, same_bits<__m512i>(words)));
#elif MUSTER_VECTOR_BYTES == 32
  const __m256i both = same_bits<__m256i>(words);
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(both, both), 0x08);
  store(to, _mm256_castsi256_si128(packed));
#else
  store(to, __builtin_convertvector(words, Halves));
#endif
}

// A type that needs no conversion for arithmetic.
template <class Element, class Arithmetic = Element>
struct Plain {
  using Lane = Arithmetic;  // unsigned for integers, so that sums wrap
  using Compared = Element;
  using V = Vector<Lane>;
  static constexpr std::size_t kBytes = sizeof(Element);
  static constexpr bool kFloating = Element(0.5) != Element(0);

  [[gnu::always_inline]] static V get(const char* from) { return load<V>(from); }

  [[gnu::always_inline]] static void put(char* to, const V& v) { store(to, v); }
};

// bf16: the upper half of an f32.
struct Brain {
  using Lane = float;
  using Compared = float;
  using V = Floats;
  static constexpr std::size_t kBytes = 2;
  static constexpr bool kFloating = true;

  [[gnu::always_inline]] static V get(const char* from) { return same_bits<V>(spread(from) << 16); }

  [[gnu::always_inline]] static void put(char* to, const V& v) {
    const Words bits = same_bits<Words>(v);
    const Words rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const Words quiet = (bits >> 16) | 0x40;
    const Words chosen = (bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded;
    put_low_halves(to, chosen);
  }
};

// f16 conversion with integer operations. Produces the same results as the CPU instructions that
// are used below.
struct HalfByBits {
  using Lane = float;
  using Compared = float;
  using V = Floats;
  static constexpr std::size_t kBytes = 2;
  static constexpr bool kFloating = true;

  [[gnu::always_inline]] static V get(const char* from) {
    const Words half = spread(from);
    const Words sign = (half & 0x8000) << 16;
    const Words rest = half & 0x7fff;
    // Moves the exponent bias from 15 to 127; exact, even for denormals.
    const Words finite = same_bits<Words>(same_bits<V>(rest << 13) * 0x1p112f);
    const Words special = (rest << 13) | 0x7f800000;
    const Words quiet = special | 0x00400000;
    const Words chosen = rest > 0x7c00 ? quiet : (rest == 0x7c00 ? special : finite);
    return same_bits<V>(chosen | sign);
  }

  [[gnu::always_inline]] static void put(char* to, const V& v) {
    const Words all = same_bits<Words>(v);
    const Words sign = (all >> 16) & 0x8000;
    const Words bits = all & 0x7fffffff;
    const Words normal = (bits - 0x38000000 + 0xfff + ((bits >> 13) & 1)) >> 13;
    // Adding 0.5 shifts and rounds the mantissa of values that are denormal in f16.
    const Words small = same_bits<Words>(same_bits<V>(bits) + 0.5F) - 0x3f000000;
    const Words nan = ((bits >> 13) & 0x3ff) | 0x7e00;
    const Words huge = bits > 0x7f800000 ? nan : (Words{} + 0x7c00);
    const Words chosen = bits >= 0x47800000 ? huge : (bits < 0x38800000 ? small : normal);
    put_low_halves(to, chosen | sign);
  }
};

#if MUSTER_VECTOR_BYTES == 16
using Half = HalfByBits;
#else
struct Half {
  using Lane = float;
  using Compared = float;
  using V = Floats;
  static constexpr std::size_t kBytes = 2;
  static constexpr bool kFloating = true;

  [[gnu::always_inline]] static V get(const char* from) {
// Use the masked forms, because g++ 12 warns about uninitialized values in the plain ones.
#if MUSTER_VECTOR_BYTES == 64
    return same_bits<V>(_mm512_maskz_cvtph_ps(0xffff, load<__m256i>(from)));
#else
    return same_bits<V>(_mm256_cvtph_ps(load<__m128i>(from)));
#endif
  }

  [[gnu::always_inline]] static void put(char* to, const V& v) {
#if MUSTER_VECTOR_BYTES == 64
    store(to, _mm512_maskz_cvtps_ph(0xffff, same_bits<__m512>(v), _MM_FROUND_TO_NEAREST_INT));
#else
    store(to, _mm256_cvtps_ph(same_bits<__m256>(v), _MM_FROUND_TO_NEAREST_INT));
#endif
  }
};
#endif

}  // namespace
}  // namespace muster::collective
