// SPDX-License-Identifier: Apache-2.0
#include "collective/kernels/kernels.hpp"

#include "base/check.hpp"
#include "collective/kernels/kernel_table.hpp"

#include <array>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace muster::collective {
namespace {

const KernelTable* table_of(Isa isa) {
  switch (isa) {
    case Isa::portable:
      return portable_kernels();
    case Isa::avx2:
      return avx2_kernels();
    case Isa::avx512:
      return avx512_kernels();
  }
  return nullptr;
}

bool processor_has(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx2) {
    // The builtin also checks that the operating system saves the wide registers.
    return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("f16c") != 0;
  }
  if (isa == Isa::avx512) {
    return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
           __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  }
#endif
  return isa == Isa::portable;
}

const KernelTable& checked_table(Isa isa) {
  MUSTER_CHECK(has(isa));
  return *table_of(isa);
}

#if defined(__x86_64__)
constexpr std::uint32_t kPlainState = 0x1f80;  // no flush to zero, round to nearest, no traps
constexpr std::uint32_t kFlagBits = 0x3f;      // sticky exception flags, not settings
#endif

}  // namespace

std::string_view name_of(Isa isa) {
  constexpr std::array<std::string_view, kIsas> kNames{"portable", "avx2", "avx512"};
  return kNames[static_cast<std::size_t>(isa)];
}

bool has(Isa isa) {
  return table_of(isa) != nullptr && processor_has(isa);
}

Isa best_isa() {
  static const Isa kBest = has(Isa::avx512) ? Isa::avx512
                           : has(Isa::avx2) ? Isa::avx2
                                            : Isa::portable;
  return kBest;
}

void reduce(const ReduceTask& task, void* out, Isa isa) {
  const auto op = static_cast<std::size_t>(task.op);
  const auto dtype = static_cast<std::size_t>(task.dtype);
  MUSTER_CHECK(op < kKernelOps && dtype < kKernelTypes && task.source_count > 0);
  if (task.count == 0) {
    return;
  }
  // Construct this once, outside the kernel's loop. Its destructor restores the caller's settings.
  const PlainArithmetic plain;
  checked_table(isa).reduce[op][dtype]({task.sources,
                                        task.source_count,
                                        out,
                                        task.count,
                                        task.scale,
                                        task.divisor == 0 ? task.source_count : task.divisor});
}

void widen(DType from, const void* in, float* out, std::size_t count, Isa isa) {
  MUSTER_CHECK(from == DType::f16 || from == DType::bf16);
  const KernelTable& table = checked_table(isa);
  const PlainArithmetic plain;
  (from == DType::f16 ? table.widen_f16 : table.widen_bf16)(in, out, count);
}

void narrow(DType to, const float* in, void* out, std::size_t count, Isa isa) {
  MUSTER_CHECK(to == DType::f16 || to == DType::bf16);
  const KernelTable& table = checked_table(isa);
  const PlainArithmetic plain;
  (to == DType::f16 ? table.narrow_f16 : table.narrow_bf16)(in, out, count);
}

#if defined(__x86_64__)
PlainArithmetic::PlainArithmetic() : before_(_mm_getcsr()) {
  if ((before_ & ~kFlagBits) != kPlainState) {
    // The program may have set flush-to-zero (PyTorch's set_flush_denormal, -ffast-math), and
    // ranks would then get different bits. Write the register only if needed, because a write
    // costs tens of cycles.
    _mm_setcsr(kPlainState);
  }
}

PlainArithmetic::~PlainArithmetic() {
  if ((before_ & ~kFlagBits) != kPlainState) {
    _mm_setcsr(before_);
  }
}
#elif defined(__aarch64__)
PlainArithmetic::PlainArithmetic() {
  std::uint64_t state = 0;
  asm volatile("mrs %0, fpcr" : "=r"(state));
  before_ = static_cast<std::uint32_t>(state);
  if (before_ != 0) {
    asm volatile("msr fpcr, %0" : : "r"(std::uint64_t{0}));
  }
}

PlainArithmetic::~PlainArithmetic() {
  if (before_ != 0) {
    asm volatile("msr fpcr, %0" : : "r"(std::uint64_t{before_}));
  }
}
#else
PlainArithmetic::PlainArithmetic() = default;
PlainArithmetic::~PlainArithmetic() = default;
#endif

}  // namespace muster::collective
