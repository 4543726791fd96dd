// SPDX-License-Identifier: Apache-2.0
// Value types of the collective library: element types, operators, buffers, call options. C++17
// wrappers for collective_types.h.
#pragma once

#include "muster/collective_types.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <type_traits>

namespace muster {
inline namespace v1 {

using Duration = std::chrono::nanoseconds;

enum class DType : std::int32_t {
  i8 = MUSTER_I8,
  u8 = MUSTER_U8,
  i32 = MUSTER_I32,
  u32 = MUSTER_U32,
  i64 = MUSTER_I64,
  u64 = MUSTER_U64,
  f16 = MUSTER_F16,
  f32 = MUSTER_F32,
  f64 = MUSTER_F64,
  bf16 = MUSTER_BF16,
  f8e4m3 = MUSTER_F8E4M3,  // GPUs only
  f8e5m2 = MUSTER_F8E5M2,  // GPUs only
};

enum class Op : std::int32_t {
  sum = MUSTER_SUM,
  prod = MUSTER_PROD,
  max = MUSTER_MAX,
  min = MUSTER_MIN,
  avg = MUSTER_AVG,
  premul_sum = MUSTER_PREMUL_SUM,  // multiplies each element by OpOptions::scale, then sums
};

enum class Backend : std::int32_t {
  automatic = MUSTER_BACKEND_AUTO,  // chosen by the buffer's device and the ranks' hosts
  shm = MUSTER_BACKEND_SHM,         // shared memory: all ranks on one host
  tcp = MUSTER_BACKEND_TCP,
  hier = MUSTER_BACKEND_HIER,  // shared memory within a host, TCP between hosts
  nccl = MUSTER_BACKEND_NCCL,
};

// Example: "shm".
[[nodiscard]] inline const char* name_of(Backend backend) {
  constexpr const char* kNames[] = {"auto", "shm", "tcp", "hier", "nccl"};
  const auto index = static_cast<std::size_t>(backend);
  return index < std::size(kNames) ? kNames[index] : "?";
}

inline constexpr int kHost = MUSTER_HOST;  // device index of host memory

// The DType of a C++ type. Specialise it for other types (__half, __nv_bfloat16).
template <class T>
struct DTypeOf {
  static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && sizeof(T) != 2 &&
                    sizeof(T) <= 8,
                "this type has no DType: pass the DType, or specialise muster::DTypeOf");
  static constexpr bool kSigned = std::is_signed_v<T>;
  static constexpr DType value = std::is_floating_point_v<T>
                                     ? (sizeof(T) == 4 ? DType::f32 : DType::f64)
                                 : sizeof(T) == 1 ? (kSigned ? DType::i8 : DType::u8)
                                 : sizeof(T) == 4 ? (kSigned ? DType::i32 : DType::u32)
                                                  : (kSigned ? DType::i64 : DType::u64);
};

// Contiguous memory that the caller owns; count is in elements. device is a CUDA ordinal or kHost.
struct Buffer {
  void* data = nullptr;
  std::size_t count = 0;
  DType dtype = DType::f32;
  int device = kHost;

  Buffer() = default;

  Buffer(void* memory, std::size_t elements, DType type, int where = kHost)
      : data(memory), count(elements), dtype(type), device(where) {}

  template <class T>
  Buffer(T* memory, std::size_t elements, int where = kHost)
      : Buffer(memory, elements, DTypeOf<T>::value, where) {}
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

  template <class T>
  ConstBuffer(const T* memory, std::size_t elements, int where = kHost)
      : ConstBuffer(memory, elements, DTypeOf<T>::value, where) {}

  ConstBuffer(const Buffer& b)  // NOLINT(google-explicit-constructor): adds const
      : ConstBuffer(b.data, b.count, b.dtype, b.device) {}
};

// Options of one call.
struct OpOptions {
  Duration timeout{0};     // 0 for the communicator's timeout
  double scale = 1;        // for premul_sum
  void* stream = nullptr;  // the operation waits for this CUDA stream; null for the default
  bool async = false;      // host buffers: return at once; Work reports completion
  // Async with host buffers: how long the call may wait for the other ranks. If they arrive in
  // time, the operation runs in the calling thread.
  Duration max_wait{0};
};

struct CommOptions {
  std::string name = "world";  // used in errors and flight records
  Backend backend = Backend::automatic;
  Duration timeout = std::chrono::minutes(10);       // per operation
  Duration init_timeout = std::chrono::seconds(60);  // how long to wait for all ranks
  std::string recorder_folder = {};       // for the flight recorder's file; shared memory if empty
  std::uint64_t recorder_entries = 2048;  // operations in the flight recorder; 0 disables it
  std::string host = {};                  // ranks with equal values share memory; detected if empty
  std::string address = {};               // where other hosts reach this rank; detected if empty
  std::string port_range = {};            // "A-B": ports to listen on for other ranks; any if empty
  std::uint64_t arena_bytes = std::uint64_t{64} << 30;  // address space reserved for alloc()
};

// For ranks started without a launcher: the store through which they find each other, and this
// rank's number.
struct Bootstrap {
  std::string store_host = {};  // empty for a single rank
  std::uint16_t store_port = 0;
  int rank = 0;
  int size = 1;
  std::uint64_t epoch = 0;  // number of restarts: ranks of different epochs never connect
  std::string job = "job";  // separates jobs that share a store
};

namespace detail {

[[nodiscard]] inline muster_buffer in_c(const ConstBuffer& b) {
  return {const_cast<void*>(b.data), b.count, static_cast<std::int32_t>(b.dtype), b.device};
}

[[nodiscard]] inline muster_call call_of(std::int32_t kind, const OpOptions& options) {
  muster_call call{};
  call.size = sizeof(call);
  call.kind = kind;
  call.is_async = options.async ? 1 : 0;
  call.timeout_ns = options.timeout.count();
  call.scale = options.scale;
  call.stream = options.stream;
  call.max_wait_ns = options.max_wait.count();
  return call;
}

[[nodiscard]] inline muster_comm_options in_c(const CommOptions& options) {
  muster_comm_options o{};
  o.size = sizeof(o);
  o.name = options.name.c_str();
  o.backend = static_cast<std::int32_t>(options.backend);
  o.timeout_ns = options.timeout.count();
  o.init_timeout_ns = options.init_timeout.count();
  o.recorder_folder = options.recorder_folder.c_str();
  o.recorder_entries =
      options.recorder_entries == 0 ? MUSTER_RECORDER_OFF : options.recorder_entries;
  o.host = options.host.c_str();
  o.address = options.address.c_str();
  o.port_range = options.port_range.c_str();
  o.arena_bytes = options.arena_bytes;
  return o;
}

}  // namespace detail
}  // namespace v1
}  // namespace muster
