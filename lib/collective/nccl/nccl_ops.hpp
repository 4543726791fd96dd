// SPDX-License-Identifier: Apache-2.0
// Maps requests to NCCL calls: types, operators, scalar operators, and operations composed of
// several sends and receives. Used by NcclCommunicator.
#pragma once

#include "collective/nccl/nccl_library.hpp"
#include "collective/transport/transport.hpp"

#include <array>
#include <cstddef>

namespace muster::collective::nccl {

struct Target {
  const NcclTable& nccl;
  int rank = 0;
  int size = 1;
  cudaStream_t stream = nullptr;
  void* scratch = nullptr;  // device memory of a few bytes, for the barrier
};

// DType uses NCCL's numbers.
[[nodiscard]] constexpr ncclDataType_t nccl_type(DType dtype) {
  return static_cast<ncclDataType_t>(dtype);
}

// The factor by which elements are multiplied before the sum: premul_sum's scale, or 1/size for avg
// of f16, whose sum could overflow. Empty if NCCL's own operator suffices. A single rank multiplies
// only if it must: see whole_part_of_one_rank.
[[nodiscard]] std::optional<double> scalar_before_sum(const Request& request, int size);

// How many of `count` elements of `width` bytes one scalar call may process if the communicator has
// one rank. NCCL (2.28.9, src/device/onerank.cu) assigns count / blocks elements to each block,
// rounded down, and skips the remainder: on an H100 the last of 10,001 i64 was left unchanged. The
// returned part has no remainder. At least 1 if count is.
[[nodiscard]] std::uint64_t whole_part_of_one_rank(std::uint64_t count, std::size_t width);

// Encodes a scalar as one element. f16, bf16 and fp8 are rounded to nearest.
[[nodiscard]] std::array<std::byte, 8> encode_scalar(DType dtype, double value);

// NCCL's operator if no scalar is needed. For one rank it is the sum, which copies; an average
// would multiply by 1 there and hit that kernel's bug.
[[nodiscard]] ncclRedOp_t built_in_operator(Op op, int size);

// Queues the request with one library call or a group of them. `op` is the reduction operator.
[[nodiscard]] ncclResult_t enqueue(const Target& target,
                                   const Request& request,
                                   ncclRedOp_t op,
                                   ncclComm_t comm);

// Why NCCL cannot perform this request; nullopt if it can.
[[nodiscard]] std::optional<std::string> cannot_perform(const Request& request,
                                                        int size,
                                                        const NcclTable& nccl,
                                                        bool sums_fp8);

}  // namespace muster::collective::nccl
