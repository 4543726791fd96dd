// SPDX-License-Identifier: Apache-2.0
// Runs a kernel, one thread of the grid after the other. First a dry run finds the memory that it
// would use; loads return zeros, because our kernels compute no addresses from data. The real run
// then stays within that memory. Called by api_module: the dry run at launch, the real run on the
// stream's thread. Errors are sentences. Pure except for the memory that the kernel uses.
#pragma once

#include "nccl/fakes/cuda/ptx.hpp"
#include "nccl/fakes/cuda/ptx_uses.hpp"

namespace muster::fake {

// A thread that exceeds this does not terminate. A thread for the largest bucket needs thousands.
inline constexpr std::uint64_t kInstructionsMax = std::uint64_t{1} << 22;

struct Launch {
  std::uint32_t blocks = 1;
  std::uint32_t threads = 1;  // threads per block
  std::vector<std::uint64_t> parameters;
};

[[nodiscard]] std::expected<Uses, std::string> foresee(const Kernel& kernel, const Launch& launch);
// Null: all threads have exited.
[[nodiscard]] std::optional<std::string> run_kernel(const Kernel& kernel,
                                                    const Launch& launch,
                                                    const Uses& uses);

}  // namespace muster::fake
