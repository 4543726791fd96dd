// SPDX-License-Identifier: Apache-2.0
// Value types of the collective library: element types, operations, buffers, call options. DType
// and Op use NCCL's numbers where NCCL defines them. The numbers are part of the C ABI and never
// change.
#pragma once

#include "base/time.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster::collective {

enum class DType : std::uint8_t {
  i8 = 0,
  u8 = 1,
  i32 = 2,
  u32 = 3,
  i64 = 4,
  u64 = 5,
  f16 = 6,
  f32 = 7,
  f64 = 8,
  bf16 = 9,
  f8e4m3 = 10,  // GPUs only
  f8e5m2 = 11,  // GPUs only
};

// How elements of different ranks are combined. Floating-point sums follow rank order; f16 and
// bf16 are summed in f32 and rounded once. Integer sums wrap. avg is the sum divided by the number
// of ranks (integers round towards zero). premul_sum multiplies each element by OpOptions::scale,
// then adds. A NaN on any rank yields NaN; this includes min and max.
enum class Op : std::uint8_t { sum = 0, prod = 1, max = 2, min = 3, avg = 4, premul_sum = 5 };

enum class Kind : std::uint8_t {
  barrier = 0,
  all_reduce = 1,
  reduce = 2,
  broadcast = 3,
  all_gather = 4,
  reduce_scatter = 5,
  all_to_all = 6,
  send = 7,
  recv = 8,
};

enum class Backend : std::uint8_t {
  automatic = 0,  // chosen by the buffer's device and the ranks' hosts
  shm = 1,        // all ranks on one host
  tcp = 2,        // TCP between every pair of ranks, even on one host
  hier = 3,       // shared memory within a host, TCP between hosts
  nccl = 4,
};

// Bytes per element; 0 for an invalid type.
[[nodiscard]] std::size_t size_of(DType dtype);

// A name such as "f32", "avg", "all_reduce" or "shm"; "?" for an invalid value.
[[nodiscard]] std::string_view name_of(DType dtype);
[[nodiscard]] std::string_view name_of(Op op);
[[nodiscard]] std::string_view name_of(Kind kind);
[[nodiscard]] std::string_view name_of(Backend backend);

// Contiguous memory that the caller owns; count is in elements. device is a CUDA ordinal or kHost.
inline constexpr int kHost = -1;

struct Buffer {
  void* data = nullptr;
  std::size_t count = 0;
  DType dtype = DType::f32;
  int device = kHost;

  bool operator==(const Buffer&) const = default;
};

// A read-only Buffer.
struct ConstBuffer {
  const void* data = nullptr;
  std::size_t count = 0;
  DType dtype = DType::f32;
  int device = kHost;

  ConstBuffer() = default;

  ConstBuffer(const void* memory, std::size_t elements, DType type, int where = kHost)
      : data(memory), count(elements), dtype(type), device(where) {}

  ConstBuffer(const Buffer& b)  // NOLINT(google-explicit-constructor): adds const
      : data(b.data), count(b.count), dtype(b.dtype), device(b.device) {}

  bool operator==(const ConstBuffer&) const = default;
};

// Options of one call.
struct OpOptions {
  Duration timeout{0};     // 0 for the communicator's timeout
  double scale = 1;        // for premul_sum
  void* stream = nullptr;  // the buffers' CUDA stream; null for the default stream
  // Host buffers: run in the communicator's own thread and return at once. No effect on device
  // buffers, which are always queued on the GPU.
  bool async = false;
  // Async with host buffers: how long the call may wait for the other ranks. If they arrive in
  // time, the call runs the operation itself and wakes no thread.
  Duration max_wait{0};
};

}  // namespace muster::collective
