// SPDX-License-Identifier: Apache-2.0
// Values of the collective library: types of elements, operators, buffers, options of a call. C++17
// over collective_types.h. Value types.
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
  f8e4m3 = MUSTER_F8E4M3,  // on GPUs only
  f8e5m2 = MUSTER_F8E5M2,  // on GPUs only
};

enum class Op : std::int32_t {
  sum = MUSTER_SUM,
  prod = MUSTER_PROD,
  max = MUSTER_MAX,
  min = MUSTER_MIN,
  avg = MUSTER_AVG,
  premul_sum = MUSTER_PREMUL_SUM,  // each element times OpOptions::scale, then summed
};

enum class Backend : std::int32_t {
  automatic = MUSTER_BACKEND_AUTO,  // by where the buffer lives and where the ranks are
  shm = MUSTER_BACKEND_SHM,         // shared memory: all ranks on one host
  tcp = MUSTER_BACKEND_TCP,
  hier = MUSTER_BACKEND_HIER,  // shared memory within a host, TCP between hosts
  nccl = MUSTER_BACKEND_NCCL,
};

// "shm".
[[nodiscard]] inline const char* name_of(Backend backend) {
  constexpr const char* kNames[] = {"auto", "shm", "tcp", "hier", "nccl"};
  const auto index = static_cast<std::size_t>(backend);
  return index < std::size(kNames) ? kNames[index] : "?";
}

inline constexpr int kHost = MUSTER_HOST;  // a device: memory of the host

// The DType of a C++ type. For types of your own (__half, __nv_bfloat16): specialise it.
template <class T>
struct DTypeOf {
  static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && sizeof(T) != 2 &&
                    sizeof(T) <= 8,
                "this type has no DType: give the DType, or specialise muster::DTypeOf");
  static constexpr bool kSigned = std::is_signed_v<T>;
  static constexpr DType value = std::is_floating_point_v<T>
                                     ? (sizeof(T) == 4 ? DType::f32 : DType::f64)
                                 : sizeof(T) == 1 ? (kSigned ? DType::i8 : DType::u8)
                                 : sizeof(T) == 4 ? (kSigned ? DType::i32 : DType::u32)
                                                  : (kSigned ? DType::i64 : DType::u64);
};

// Contiguous memory of the caller; count is in elements. device: CUDA ordinal, or kHost.
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

// The same, only read.
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
  Duration timeout{0};     // 0: the communicator's
  double scale = 1;        // of premul_sum
  void* stream = nullptr;  // CUDA stream whose work the operation waits for; null: the default one
  bool async = false;      // host buffers: return at once; Work says when it is done
  Duration max_wait{0};    // async, host buffers: how long the call may wait for the other ranks,
                           // to perform the operation itself if they come
};

struct CommOptions {
  std::string name = "world";  // in errors and records
  Backend backend = Backend::automatic;
  Duration timeout = std::chrono::minutes(10);       // of an operation
  Duration init_timeout = std::chrono::seconds(60);  // for all ranks to arrive
  std::string recorder_folder = {};       // of the flight recorder; empty: memory of the host
  std::uint64_t recorder_entries = 2048;  // operations that it keeps; 0: none
  std::string host = {};                  // ranks with the same text share memory; empty: found out
  std::string address = {};               // by which other hosts reach this rank; empty: found out
  std::string port_range = {};  // "A-B": where it listens for other ranks; empty: any free port
  std::uint64_t arena_bytes = std::uint64_t{64} << 30;  // most that alloc() gives, of addresses
};

// For ranks that no launcher starts: the store by which they meet, and who this one is.
struct Bootstrap {
  std::string store_host = {};  // empty for a single rank
  std::uint16_t store_port = 0;
  int rank = 0;
  int size = 1;
  std::uint64_t epoch = 0;  // counts restarts: ranks of different epochs never meet
  std::string job = "job";  // keeps apart what shares one store
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
