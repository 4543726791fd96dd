// SPDX-License-Identifier: Apache-2.0
// The arithmetic: combines the same piece of memory of several ranks, element by element, in the
// order in which the pieces are given. The result has the same bits with every instruction set and
// wherever a buffer is cut (but for the payload of a NaN). Pure; any thread.
#pragma once

#include "collective/types.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace muster::collective {

// The instruction sets that there are kernels for, from the slowest. `portable` is what the
// compiler makes of vectors for the plain processor: SSE2 or NEON.
enum class Isa : std::uint8_t { portable, avx2, avx512 };

inline constexpr int kIsas = 3;

[[nodiscard]] std::string_view name_of(Isa isa);

// Whether this processor (and this build) has it.
[[nodiscard]] bool has(Isa isa);

// The fastest that is there.
[[nodiscard]] Isa best_isa();

struct ReduceTask {
  Op op = Op::sum;
  DType dtype = DType::f32;  // not the 8-bit floating types
  double scale = 1;          // of premul_sum
  const void* const* sources = nullptr;
  std::size_t source_count = 0;  // at least 1: the ranks
  std::size_t count = 0;         // elements
  std::size_t divisor = 0;       // of avg; 0: source_count
};

// `out` may be one of the sources; other overlaps are not allowed.
void reduce(const ReduceTask& task, void* out, Isa isa = best_isa());

// f32 from and to f16 or bf16, rounded to nearest even. No overlap.
void widen(DType from, const void* in, float* out, std::size_t count, Isa isa = best_isa());
void narrow(DType to, const float* in, void* out, std::size_t count, Isa isa = best_isa());

// While it lives, this thread computes with denormal numbers and rounds to nearest, whatever the
// program had set: otherwise ranks could differ.
class PlainArithmetic {
 public:
  PlainArithmetic();
  PlainArithmetic(const PlainArithmetic&) = delete;
  PlainArithmetic& operator=(const PlainArithmetic&) = delete;
  ~PlainArithmetic();

 private:
  std::uint32_t before_ = 0;
};

}  // namespace muster::collective
