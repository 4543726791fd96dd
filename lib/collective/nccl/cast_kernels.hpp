// SPDX-License-Identifier: Apache-2.0
// The kernels that convert f32 to bf16 or f16 and back, as PTX: the text that every driver turns
// into code of its GPU, so that nothing but headers is needed to build. Four elements a thread and
// turn: 16 bytes a load is what the memory of a GPU needs to run at full speed. Pure.
#pragma once

#include <string>

namespace muster::collective::nccl {

// Elements that a thread converts at a time; threads of a block; blocks, which go round.
inline constexpr unsigned kCastQuad = 4;
inline constexpr unsigned kCastThreads = 256;
inline constexpr unsigned kCastMaxBlocks = 1024;

inline constexpr const char* kNarrowBf16 = "muster_narrow_bf16";
inline constexpr const char* kNarrowF16 = "muster_narrow_f16";
inline constexpr const char* kWidenBf16 = "muster_widen_bf16";
inline constexpr const char* kWidenF16 = "muster_widen_f16";

// Each of them is (const void* from, void* to, uint64 count): one-dimensional blocks and grid, both
// addresses multiples of 16 bytes, any number of elements. Rounds to nearest even; what is no
// number stays none.
[[nodiscard]] std::string cast_kernels();

}  // namespace muster::collective::nccl
