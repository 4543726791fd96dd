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

// The factor by which each element is multiplied before the sum: the scale of premul_sum, or
// 1/size for avg of f16, because the plain sum could overflow. Empty if NCCL's own operator
// suffices. With a single rank, multiplies only if necessary: see whole_part_of_one_rank.
[[nodiscard]] std::optional<double> scalar_before_sum(const Request& request, int size);

// If the communicator has one rank: how many of `count` elements of `width` bytes one scalar call
// may process. NCCL (2.28.9, src/device/onerank.cu) assigns count / blocks elements to each block,
// rounded down, and skips the remainder: on an H100 the last of 10,001 i64 was left unchanged. The
// returned part leaves no remainder. At least 1 if `count` is at least 1.
[[nodiscard]] std::uint64_t whole_part_of_one_rank(std::uint64_t count, std::size_t width);

// Encodes a scalar as one element. f16, bf16 and fp8 are rounded to nearest.
[[nodiscard]] std::array<std::byte, 8> encode_scalar(DType dtype, double value);

// NCCL's operator if no scalar is needed. With one rank it is ncclSum, because a sum over one rank
// is a plain copy. An average would multiply by 1 and trigger the bug described at
// whole_part_of_one_rank.
[[nodiscard]] ncclRedOp_t built_in_operator(Op op, int size);

// Queues the request with one NCCL call or one group of NCCL calls. `op` is the reduction operator.
[[nodiscard]] ncclResult_t enqueue(const Target& target,
                                   const Request& request,
                                   ncclRedOp_t op,
                                   ncclComm_t comm);

// The reason why NCCL cannot perform this request; nullopt if it can.
[[nodiscard]] std::optional<std::string> cannot_perform(const Request& request,
                                                        int size,
                                                        const NcclTable& nccl,
                                                        bool sums_fp8);

}  // namespace muster::collective::nccl
