// SPDX-License-Identifier: Apache-2.0
// Tables of the functions in each kernels_<isa>.cpp, by operation and type. Private to the
// kernels.
#pragma once

#include <array>
#include <cstddef>

namespace muster::collective {

struct KernelArgs {
  const void* const* sources;
  std::size_t source_count;
  void* out;
  std::size_t count;
  double scale;
  std::size_t divisor;
};

using ReduceKernel = void (*)(const KernelArgs&);
using WidenKernel = void (*)(const void* in, float* out, std::size_t count);
using NarrowKernel = void (*)(const float* in, void* out, std::size_t count);

inline constexpr std::size_t kKernelOps = 6;
inline constexpr std::size_t kKernelTypes = 10;

struct KernelTable {
  std::array<std::array<ReduceKernel, kKernelTypes>, kKernelOps> reduce;
  WidenKernel widen_f16;
  WidenKernel widen_bf16;
  NarrowKernel narrow_f16;
  NarrowKernel narrow_bf16;
};

// Null if this build lacks these kernels.
[[nodiscard]] const KernelTable* portable_kernels();
[[nodiscard]] const KernelTable* avx2_kernels();
[[nodiscard]] const KernelTable* avx512_kernels();

}  // namespace muster::collective
