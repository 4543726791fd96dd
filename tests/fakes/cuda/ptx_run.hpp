// SPDX-License-Identifier: Apache-2.0
// Runs a kernel, one thread of the grid after the other. First dry: what memory it
// would use, with zeros for what it loads, since our kernels compute no address from data; then for
// real, within what the dry run said. Called by api_module: dry when the kernel is launched, for
// real on the stream's thread. Errors are sentences. Pure but for the memory that the kernel uses.
#pragma once

#include "fakes/cuda/ptx.hpp"
#include "fakes/cuda/ptx_uses.hpp"

namespace muster::fake {

// A thread that runs more of them does not end. A thread of the biggest bucket needs thousands.
inline constexpr std::uint64_t kInstructionsMax = std::uint64_t{1} << 22;

struct Launch {
  std::uint32_t blocks = 1;
  std::uint32_t threads = 1;  // of a block
  std::vector<std::uint64_t> parameters;
};

[[nodiscard]] std::expected<Uses, std::string> foresee(const Kernel& kernel, const Launch& launch);
// Null: all threads have ended.
[[nodiscard]] std::optional<std::string> run_kernel(const Kernel& kernel,
                                                    const Launch& launch,
                                                    const Uses& uses);

}  // namespace muster::fake
