// SPDX-License-Identifier: Apache-2.0
// From a request to calls of NCCL: types, operators, operators with a scalar, what is made of
// several sends and receives. Used by the communicator of this folder.
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

// The numbers of DType are NCCL's.
[[nodiscard]] constexpr ncclDataType_t nccl_type(DType dtype) {
  return static_cast<ncclDataType_t>(dtype);
}

// Which scalar the elements are multiplied with before they are added: premul_sum's, and for avg
// of f16, whose sum could overflow, one over the number of ranks. None: NCCL's own operator does.
// One rank multiplies only where it must: see whole_part_of_one_rank.
[[nodiscard]] std::optional<double> scalar_before_sum(const Request& request, int size);

// How many of `count` elements of `width` bytes one call with a scalar may take where the
// communicator has one rank. NCCL (2.28.9, src/device/onerank.cu) gives each of its blocks
// count / blocks elements, rounded down, and leaves out what remains: seen on an H100, where the
// last of 10,001 i64 stayed as it was. Such a part leaves nothing. At least 1 where count is.
[[nodiscard]] std::uint64_t whole_part_of_one_rank(std::uint64_t count, std::size_t width);

// A scalar as the bytes of one element. Halves and fp8 are rounded to nearest.
[[nodiscard]] std::array<std::byte, 8> encode_scalar(DType dtype, double value);

// NCCL's operator where no scalar is needed. One rank's is the sum, which copies: an average would
// multiply by 1 there, with the faults of that kernel.
[[nodiscard]] ncclRedOp_t built_in_operator(Op op, int size);

// Queues the request; one call of the library, or a group of them. `op` is what to reduce with.
[[nodiscard]] ncclResult_t enqueue(const Target& target,
                                   const Request& request,
                                   ncclRedOp_t op,
                                   ncclComm_t comm);

// Why NCCL cannot perform this request; nullopt where it can.
[[nodiscard]] std::optional<std::string> cannot_perform(const Request& request,
                                                        int size,
                                                        const NcclTable& nccl,
                                                        bool sums_fp8);

}  // namespace muster::collective::nccl
