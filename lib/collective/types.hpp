// SPDX-License-Identifier: Apache-2.0
// The types of the collective library: element types, operations, buffers, options of one call.
// Value types. The numbers of DType and Op are NCCL's where NCCL has them and part of the C ABI:
// they never change.
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
  f8e4m3 = 10,  // on GPUs only
  f8e5m2 = 11,  // on GPUs only
};

// How elements of the ranks are combined. Floating sums are made in the order of ranks, f16 and
// bf16 in f32 and rounded once. Integer sums wrap; avg is the sum divided by the number of ranks
// (integers: towards zero); premul_sum multiplies each element by OpOptions::scale and adds.
// A NaN on any rank gives NaN, also for min and max.
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
  automatic = 0,  // by where the buffer lives and where the ranks are
  shm = 1,        // all ranks on one host
  tcp = 2,        // every pair of ranks over TCP, also on one host
  hier = 3,       // shared memory within a host, TCP between hosts
  nccl = 4,
};

// Bytes of one element; 0 for a number that is no type.
[[nodiscard]] std::size_t size_of(DType dtype);

// "f32", "avg", "all_reduce", "shm"; "?" for a number that has no name.
[[nodiscard]] std::string_view name_of(DType dtype);
[[nodiscard]] std::string_view name_of(Op op);
[[nodiscard]] std::string_view name_of(Kind kind);
[[nodiscard]] std::string_view name_of(Backend backend);

// Memory of the caller, contiguous; count is in elements. The device is the CUDA ordinal, or kHost.
inline constexpr int kHost = -1;

struct Buffer {
  void* data = nullptr;
  std::size_t count = 0;
  DType dtype = DType::f32;
  int device = kHost;

  bool operator==(const Buffer&) const = default;
};

// The same, only read.
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
  Duration timeout{0};     // 0: the communicator's
  double scale = 1;        // for premul_sum
  void* stream = nullptr;  // CUDA stream that the buffers belong to; null is the default stream
  // Host buffers: run in the communicator's own thread and return at once. Device buffers are
  // always queued on the GPU, and this changes nothing for them.
  bool async = false;
  // Async, host buffers: how long the call may wait for the other ranks. If they come, it performs
  // the operation itself, and no thread is woken for it.
  Duration max_wait{0};
};

}  // namespace muster::collective
