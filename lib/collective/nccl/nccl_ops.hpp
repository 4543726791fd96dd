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
[[nodiscard]] std::optional<double> scalar_before_sum(const Request& request, int size);

// A scalar as the bytes of one element. Halves and fp8 are rounded to nearest.
[[nodiscard]] std::array<std::byte, 8> encode_scalar(DType dtype, double value);

// NCCL's operator where no scalar is needed.
[[nodiscard]] ncclRedOp_t built_in_operator(Op op);

// Queues the request; one call of the library, or a group of them. `op` is what to reduce with.
[[nodiscard]] ncclResult_t enqueue(const Target& target,
                                   const Request& request,
                                   ncclRedOp_t op,
                                   ncclComm_t comm);

// Why NCCL cannot perform this request; nullopt where it can.
[[nodiscard]] std::optional<std::string> cannot_perform(const Request& request,
                                                        const NcclTable& nccl,
                                                        bool sums_fp8);

}  // namespace muster::collective::nccl
