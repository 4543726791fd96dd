// SPDX-License-Identifier: Apache-2.0
// Arithmetic: combines the same block of data from several ranks, element by element, in the given
// order. The result is bitwise identical for all instruction sets and all splits of a buffer,
// except for NaN payloads. Pure; any thread.
#pragma once

#include "collective/types.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace muster::collective {

// Instruction sets with kernels, slowest first. `portable` uses compiler vectors for the baseline
// CPU: SSE2 or NEON.
enum class Isa : std::uint8_t { portable, avx2, avx512 };

inline constexpr int kIsas = 3;

[[nodiscard]] std::string_view name_of(Isa isa);

// Whether this CPU and this build support the instruction set.
[[nodiscard]] bool has(Isa isa);

// The fastest supported instruction set.
[[nodiscard]] Isa best_isa();

struct ReduceTask {
  Op op = Op::sum;
  DType dtype = DType::f32;  // not the 8-bit floating types
  double scale = 1;          // for premul_sum
  const void* const* sources = nullptr;
  std::size_t source_count = 0;  // number of ranks, at least 1
  std::size_t count = 0;         // elements
  std::size_t divisor = 0;       // for avg; 0 means source_count
};

// `out` may be one of the sources; other overlaps are not allowed.
void reduce(const ReduceTask& task, void* out, Isa isa = best_isa());

// Convert between f32 and f16 or bf16, rounding to nearest even. The buffers must not overlap.
void widen(DType from, const void* in, float* out, std::size_t count, Isa isa = best_isa());
void narrow(DType to, const float* in, void* out, std::size_t count, Isa isa = best_isa());

// While this object exists, its thread computes with denormals and rounds to nearest, regardless
// of the program's settings. Otherwise results could differ between ranks.
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
