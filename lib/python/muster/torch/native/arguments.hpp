// SPDX-License-Identifier: Apache-2.0
// Decides which tensors and options this module passes to the library. Python handles all others.
#pragma once

#include "muster/collective_types.h"

#include <ATen/ATen.h>
#include <chrono>
#include <optional>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace muster::torch_backend {

// The library's number for a type, as in tensors.py; nullopt for types without arithmetic.
inline std::optional<std::int32_t> number_of(at::ScalarType type) {
  switch (type) {
    case at::kChar:
      return MUSTER_I8;
    case at::kByte:
      return MUSTER_U8;
    case at::kInt:
      return MUSTER_I32;
    case at::kLong:
      return MUSTER_I64;
    case at::kHalf:
      return MUSTER_F16;
    case at::kFloat:
      return MUSTER_F32;
    case at::kDouble:
      return MUSTER_F64;
    case at::kBFloat16:
      return MUSTER_BF16;
    case at::ScalarType::UInt32:
      return MUSTER_U32;
    case at::ScalarType::UInt64:
      return MUSTER_U64;
    default:
      return std::nullopt;
  }
}

inline std::optional<std::int32_t> op_of(const c10d::ReduceOp& op) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
    case c10d::ReduceOp::SUM:
      return MUSTER_SUM;
    case c10d::ReduceOp::AVG:
      return MUSTER_AVG;
    case c10d::ReduceOp::PRODUCT:
      return MUSTER_PROD;
    case c10d::ReduceOp::MIN:
      return MUSTER_MIN;
    case c10d::ReduceOp::MAX:
      return MUSTER_MAX;
    default:
      return std::nullopt;
  }
}

// The tensor must be contiguous in host memory.
inline bool is_plain(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.layout() == at::kStrided && tensor.is_contiguous() &&
         !tensor.is_conj() && !tensor.is_neg();
}

inline bool is_numeric(const at::Tensor& tensor) {
  return is_plain(tensor) && number_of(tensor.scalar_type()).has_value();
}

// Accepts any type; types that the library lacks are sent as bytes.
inline muster_buffer buffer_of(const at::Tensor& tensor) {
  const auto number = number_of(tensor.scalar_type());
  const auto count = static_cast<std::size_t>(tensor.numel());
  return {tensor.data_ptr(),
          number ? count : count * tensor.element_size(),
          number.value_or(MUSTER_U8),
          MUSTER_HOST};
}

// Whether the caller requested an asynchronous operation. Earlier versions of PyTorch lack this
// option.
template <class Options>
auto is_async(const Options& options, int /*preferred*/) -> decltype(options.asyncOp) {
  return options.asyncOp;
}

template <class Options>
bool is_async(const Options& /*options*/, long /*otherwise*/) {
  return true;
}

}  // namespace muster::torch_backend
