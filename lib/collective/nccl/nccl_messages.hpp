// SPDX-License-Identifier: Apache-2.0
// Error messages for NCCL and CUDA failures. They contain the rank, the operation, the library's
// own message and its version. Used by NcclCommunicator. Pure, except for NCCL's last error, which
// is in a process-wide buffer and therefore copied immediately.
#pragma once

#include "collective/nccl/cuda_driver.hpp"
#include "collective/nccl/nccl_library.hpp"

#include <cstdint>
#include <string>

namespace muster::collective::nccl {

// The rank and the communicator that a message refers to.
struct Speaker {
  std::string name;  // the communicator's name
  int rank = 0;
  int size = 1;
  std::uint64_t epoch = 0;
};

// Example: "rank 1 of 4, 'world', epoch 0".
[[nodiscard]] std::string describe(const Speaker& speaker);
// Example: "NCCL 2.28.9 (/path), CUDA driver 13.0".
[[nodiscard]] std::string describe(const NcclLibrary& nccl, const CudaDriver& cuda);

struct Failure {
  std::string doing;  // "all_reduce #3 sum f32[8]", "starting"
  std::uint64_t seq = 0;
  ncclResult_t result = ncclSuccess;
};

[[nodiscard]] Error nccl_error(const Speaker& speaker,
                               const Failure& failure,
                               const NcclLibrary& nccl,
                               const CudaDriver& cuda);

}  // namespace muster::collective::nccl
