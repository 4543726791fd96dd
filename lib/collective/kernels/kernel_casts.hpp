// SPDX-License-Identifier: Apache-2.0
// Conversions between f32 and f16 or bf16 for one instruction set. kernel_vectors.hpp explains the
// unnamed namespace.
#pragma once

#include "collective/kernels/kernel_vectors.hpp"

namespace muster::collective {
namespace {

constexpr std::size_t kLanes = kWidth / sizeof(float);

template <class T>
void widen_all(const void* in, float* out, std::size_t count) {
  const char* source = static_cast<const char*>(in);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    store(out + i, T::get(source + i * T::kBytes));
  }
  if (i < count) {
    char piece[kWidth] = {};
    __builtin_memcpy(piece, source + i * T::kBytes, (count - i) * T::kBytes);
    const Floats wide = T::get(piece);
    __builtin_memcpy(out + i, &wide, (count - i) * sizeof(float));
  }
}

template <class T>
void narrow_all(const float* in, void* out, std::size_t count) {
  char* to = static_cast<char*>(out);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    T::put(to + i * T::kBytes, load<Floats>(in + i));
  }
  if (i < count) {
    Floats wide{};
    __builtin_memcpy(&wide, in + i, (count - i) * sizeof(float));
    char piece[kWidth];
    T::put(piece, wide);
    __builtin_memcpy(to + i * T::kBytes, piece, (count - i) * T::kBytes);
  }
}

}  // namespace
}  // namespace muster::collective
