// SPDX-License-Identifier: Apache-2.0
// Kernels that convert between f32 and bf16 or f16, as PTX source. The driver compiles it for its
// GPU at run time, so the build needs only headers. Each thread converts four elements at a time,
// because a GPU needs 16-byte loads for full memory bandwidth. Pure.
#pragma once

#include <string>

namespace muster::collective::nccl {

// Elements per thread and iteration; threads per block; maximum number of blocks in the grid.
inline constexpr unsigned kCastQuad = 4;
inline constexpr unsigned kCastThreads = 256;
inline constexpr unsigned kCastMaxBlocks = 1024;

inline constexpr const char* kNarrowBf16 = "muster_narrow_bf16";
inline constexpr const char* kNarrowF16 = "muster_narrow_f16";
inline constexpr const char* kWidenBf16 = "muster_widen_bf16";
inline constexpr const char* kWidenF16 = "muster_widen_f16";

// Parameters of each kernel: (const void* from, void* to, uint64 count). Blocks and grid are
// one-dimensional, both addresses must be aligned to 16 bytes, and any count is allowed. Rounds to
// nearest even; NaNs stay NaN.
[[nodiscard]] std::string cast_kernels();

}  // namespace muster::collective::nccl
