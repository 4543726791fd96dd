// SPDX-License-Identifier: Apache-2.0
// Messages about failures of NCCL and CUDA: which rank, which operation, what the library reported
// and which library it is. Used by the communicator of this folder. Pure but for NCCL's last error,
// a buffer that it has once for the whole process, so that the text is copied at once.
#pragma once

#include "collective/nccl/cuda_driver.hpp"
#include "collective/nccl/nccl_library.hpp"

#include <cstdint>
#include <string>

namespace muster::collective::nccl {

// The rank and the communicator that a message is about.
struct Speaker {
  std::string name;  // of the communicator
  int rank = 0;
  int size = 1;
  std::uint64_t epoch = 0;
};

// "rank 1 of 4, 'world', epoch 0".
[[nodiscard]] std::string describe(const Speaker& speaker);
// "NCCL 2.28.9 (/path), CUDA driver 13.0".
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
