// SPDX-License-Identifier: Apache-2.0
#include "collective/types.hpp"

#include <array>

namespace muster::collective {
namespace {

struct TypeRow {
  std::string_view name;
  std::size_t size;
};

constexpr std::array<TypeRow, 12> kTypes{{{"i8", 1},
                                          {"u8", 1},
                                          {"i32", 4},
                                          {"u32", 4},
                                          {"i64", 8},
                                          {"u64", 8},
                                          {"f16", 2},
                                          {"f32", 4},
                                          {"f64", 8},
                                          {"bf16", 2},
                                          {"f8e4m3", 1},
                                          {"f8e5m2", 1}}};

constexpr std::array<std::string_view, 6> kOps{"sum", "prod", "max", "min", "avg", "premul_sum"};

constexpr std::array<std::string_view, 9> kKinds{"barrier",
                                                 "all_reduce",
                                                 "reduce",
                                                 "broadcast",
                                                 "all_gather",
                                                 "reduce_scatter",
                                                 "all_to_all",
                                                 "send",
                                                 "recv"};

constexpr std::array<std::string_view, 5> kBackends{"auto", "shm", "tcp", "hier", "nccl"};

template <std::size_t N>
std::string_view pick(const std::array<std::string_view, N>& names, std::size_t index) {
  return index < N ? names[index] : "?";
}

}  // namespace

std::size_t size_of(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  return index < kTypes.size() ? kTypes[index].size : 0;
}

std::string_view name_of(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  return index < kTypes.size() ? kTypes[index].name : "?";
}

std::string_view name_of(Op op) {
  return pick(kOps, static_cast<std::size_t>(op));
}

std::string_view name_of(Kind kind) {
  return pick(kKinds, static_cast<std::size_t>(kind));
}

std::string_view name_of(Backend backend) {
  return pick(kBackends, static_cast<std::size_t>(backend));
}

}  // namespace muster::collective
