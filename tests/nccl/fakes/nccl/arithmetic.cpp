// SPDX-License-Identifier: Apache-2.0
#include "nccl/fakes/nccl/arithmetic.hpp"

#include "nccl/fakes/violation.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace muster::fake {
namespace {

struct E4m3 {
  __nv_fp8_storage_t bits;
};

struct E5m2 {
  __nv_fp8_storage_t bits;
};

// Converts a value to the type in which sums are computed.
template <class T>
auto widen(T value) {
  if constexpr (std::is_same_v<T, __half>) {
    return __half2float(value);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __bfloat162float(value);
  } else if constexpr (std::is_same_v<T, E4m3>) {
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(value.bits, __NV_E4M3)));
  } else if constexpr (std::is_same_v<T, E5m2>) {
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(value.bits, __NV_E5M2)));
  } else {
    return value;
  }
}

template <class T, class Wide>
T narrow(Wide value) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(value);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(value);
  } else if constexpr (std::is_same_v<T, E4m3>) {
    return {__nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3)};
  } else if constexpr (std::is_same_v<T, E5m2>) {
    return {__nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E5M2)};
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
T load(const void* from, std::size_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(from) + i * sizeof(T), sizeof(T));
  return value;
}

// Integers wrap, as on the GPU.
template <class Wide>
Wide combine(ncclRedOp_t op, Wide a, Wide b) {
  if (op == ncclMax) {
    return std::max(a, b);
  }
  if (op == ncclMin) {
    return std::min(a, b);
  }
  if constexpr (std::is_integral_v<Wide>) {
    const auto x = static_cast<std::uint64_t>(a);
    const auto y = static_cast<std::uint64_t>(b);
    return static_cast<Wide>(op == ncclProd ? x * y : x + y);
  } else {
    return op == ncclProd ? a * b : a + b;
  }
}

template <class T>
void reduce_as(Reduction reduction,
               const std::vector<const void*>& parts,
               void* out,
               std::size_t count) {
  using Wide = decltype(widen(T{}));
  const auto scale = static_cast<Wide>(reduction.scalar);
  for (std::size_t i = 0; i < count; ++i) {
    auto sum = static_cast<Wide>(widen(load<T>(parts[0], i)) * scale);
    for (std::size_t part = 1; part < parts.size(); ++part) {
      const auto next = static_cast<Wide>(widen(load<T>(parts[part], i)) * scale);
      sum = combine(reduction.op, sum, next);
    }
    if (reduction.op == ncclAvg) {
      sum = static_cast<Wide>(sum / static_cast<Wide>(parts.size()));
    }
    const T rounded = narrow<T>(sum);
    std::memcpy(static_cast<char*>(out) + i * sizeof(T), &rounded, sizeof(T));
  }
}

using Reducer = void (*)(Reduction, const std::vector<const void*>&, void*, std::size_t);

struct Type {
  std::size_t bytes;
  const char* name;
  Reducer reduce;
  double (*read)(const void*);
};

template <class T>
constexpr Type type(const char* name) {
  return {sizeof(T), name, reduce_as<T>, [](const void* from) {
            return static_cast<double>(widen(load<T>(from, 0)));
          }};
}

const Type& find(ncclDataType_t which) {
  // In the order of NCCL's constants.
  static const std::array<Type, ncclNumTypes> kTypes = {type<std::int8_t>("i8"),
                                                        type<std::uint8_t>("u8"),
                                                        type<std::int32_t>("i32"),
                                                        type<std::uint32_t>("u32"),
                                                        type<std::int64_t>("i64"),
                                                        type<std::uint64_t>("u64"),
                                                        type<__half>("f16"),
                                                        type<float>("f32"),
                                                        type<double>("f64"),
                                                        type<__nv_bfloat16>("bf16"),
                                                        type<E4m3>("f8e4m3"),
                                                        type<E5m2>("f8e5m2")};
  require(which >= 0 && which < ncclNumTypes, "a number that is no data type");
  return kTypes[static_cast<std::size_t>(which)];
}

}  // namespace

std::size_t bytes_of(ncclDataType_t which) {
  return find(which).bytes;
}

const char* name_of(ncclDataType_t which) {
  return find(which).name;
}

void reduce(ncclDataType_t which,
            Reduction reduction,
            const std::vector<const void*>& parts,
            void* out,
            std::size_t count) {
  find(which).reduce(reduction, parts, out, count);
}

double read_scalar(ncclDataType_t which, const void* scalar) {
  return find(which).read(scalar);
}

}  // namespace muster::fake
