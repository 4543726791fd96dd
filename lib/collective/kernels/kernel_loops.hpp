// SPDX-License-Identifier: Apache-2.0
// Element loops for one instruction set. kernel_vectors.hpp explains the unnamed namespace. The
// tail of a buffer uses the same vector code, so an element's bits do not depend on its position.
#pragma once

#include "collective/kernels/kernel_casts.hpp"
#include "collective/kernels/kernel_table.hpp"
#include "collective/kernels/kernel_vectors.hpp"

namespace muster::collective {
namespace {

constexpr std::size_t kUnroll = 4;

// Each operation starts with the first rank's element, combines it with the others in rank order,
// and applies its final step (such as the division of an average) once at the end.
template <class T>
struct Fold {
  using V = typename T::V;

  [[gnu::always_inline]] static V first(const V& x, const V&) { return x; }

  [[gnu::always_inline]] static V finish(const V& x, std::size_t) { return x; }
};

template <class T>
struct SumOf : Fold<T> {
  using V = typename T::V;

  [[gnu::always_inline]] static V join(const V& a, const V& x, const V&) { return a + x; }
};

template <class T>
struct ProdOf : Fold<T> {
  using V = typename T::V;

  [[gnu::always_inline]] static V join(const V& a, const V& x, const V&) { return a * x; }
};

template <class T>
struct MaxOf : Fold<T> {
  using V = typename T::V;
  using C = Vector<typename T::Compared>;

  [[gnu::always_inline]] static V join(const V& a, const V& x, const V&) {
    const C left = same_bits<C>(a);
    const C right = same_bits<C>(x);
    // A NaN on the left is kept. A NaN on the right makes the comparison false and is selected.
    return same_bits<V>(((left > right) | (left != left)) ? left : right);
  }
};

template <class T>
struct MinOf : Fold<T> {
  using V = typename T::V;
  using C = Vector<typename T::Compared>;

  [[gnu::always_inline]] static V join(const V& a, const V& x, const V&) {
    const C left = same_bits<C>(a);
    const C right = same_bits<C>(x);
    return same_bits<V>(((left < right) | (left != left)) ? left : right);
  }
};

template <class T>
struct AvgOf : SumOf<T> {
  using V = typename T::V;
  using C = Vector<typename T::Compared>;

  [[gnu::always_inline]] static V finish(const V& x, std::size_t by) {
    const auto divisor = static_cast<typename T::Compared>(by);
    if constexpr (T::kFloating) {
      if ((by & (by - 1)) == 0) {
        return x * (1 / divisor);  // faster than a division, and exact for powers of two
      }
    }
    return same_bits<V>(same_bits<C>(x) / divisor);
  }
};

template <class T>
struct PremulOf : Fold<T> {
  using V = typename T::V;

  [[gnu::always_inline]] static V first(const V& x, const V& scale) { return x * scale; }

  [[gnu::always_inline]] static V join(const V& a, const V& x, const V& scale) {
    return a + x * scale;
  }
};

template <class T, template <class> class Operation, std::size_t N>
[[gnu::always_inline]] inline void fold_block(const KernelArgs& args,
                                              std::size_t at,
                                              const typename T::V& scale,
                                              char* out) {
  using V = typename T::V;
  constexpr std::size_t kStep = kWidth / sizeof(typename T::Lane) * T::kBytes;
  V sums[N];
  const auto* source = static_cast<const char*>(args.sources[0]) + at;
  for (std::size_t i = 0; i < N; ++i) {
    sums[i] = Operation<T>::first(T::get(source + i * kStep), scale);
  }
  for (std::size_t rank = 1; rank < args.source_count; ++rank) {
    source = static_cast<const char*>(args.sources[rank]) + at;
    for (std::size_t i = 0; i < N; ++i) {
      sums[i] = Operation<T>::join(sums[i], T::get(source + i * kStep), scale);
    }
  }
  for (std::size_t i = 0; i < N; ++i) {
    T::put(out + i * kStep, Operation<T>::finish(sums[i], args.divisor));
  }
}

// Handles a tail shorter than a vector.
template <class T, template <class> class Operation>
void fold_rest(const KernelArgs& args,
               std::size_t at,
               std::size_t bytes,
               const typename T::V& scale) {
  using V = typename T::V;
  char piece[kWidth] = {};
  __builtin_memcpy(piece, static_cast<const char*>(args.sources[0]) + at, bytes);
  V sum = Operation<T>::first(T::get(piece), scale);
  for (std::size_t rank = 1; rank < args.source_count; ++rank) {
    __builtin_memcpy(piece, static_cast<const char*>(args.sources[rank]) + at, bytes);
    sum = Operation<T>::join(sum, T::get(piece), scale);
  }
  T::put(piece, Operation<T>::finish(sum, args.divisor));
  __builtin_memcpy(static_cast<char*>(args.out) + at, piece, bytes);
}

template <class T, template <class> class Operation>
void fold(const KernelArgs& args) {
  constexpr std::size_t kStep = kWidth / sizeof(typename T::Lane) * T::kBytes;
  const std::size_t bytes = args.count * T::kBytes;
  const typename T::V scale = typename T::V{} + static_cast<typename T::Lane>(
                                                    static_cast<typename T::Compared>(args.scale));
  auto* const out = static_cast<char*>(args.out);
  std::size_t at = 0;
  for (; at + kUnroll * kStep <= bytes; at += kUnroll * kStep) {
    fold_block<T, Operation, kUnroll>(args, at, scale, out + at);
  }
  for (; at + kStep <= bytes; at += kStep) {
    fold_block<T, Operation, 1>(args, at, scale, out + at);
  }
  if (at < bytes) {
    fold_rest<T, Operation>(args, at, bytes - at, scale);
  }
}

template <template <class> class Operation>
constexpr std::array<ReduceKernel, kKernelTypes> row() {
  return {fold<Plain<std::int8_t, std::uint8_t>, Operation>,
          fold<Plain<std::uint8_t>, Operation>,
          fold<Plain<std::int32_t, std::uint32_t>, Operation>,
          fold<Plain<std::uint32_t>, Operation>,
          fold<Plain<std::int64_t, std::uint64_t>, Operation>,
          fold<Plain<std::uint64_t>, Operation>,
          fold<Half, Operation>,
          fold<Plain<float>, Operation>,
          fold<Plain<double>, Operation>,
          fold<Brain, Operation>};
}

// The entries are in the order of the enum Op.
constexpr KernelTable kTable{
    {row<SumOf>(), row<ProdOf>(), row<MaxOf>(), row<MinOf>(), row<AvgOf>(), row<PremulOf>()},
    widen_all<Half>,
    widen_all<Brain>,
    narrow_all<Half>,
    narrow_all<Brain>};

}  // namespace
}  // namespace muster::collective
