// SPDX-License-Identifier: Apache-2.0
// A dump of PyTorch's flight recorder as positions of its rank: what its back ends (NCCL, gloo)
// recorded of their operations, for the judge to compare. Pure; any bytes may come.
#pragma once

#include "base/error.hpp"
#include "hang/evidence.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::hang {

// Process groups of one rank; more are left out.
inline constexpr std::size_t kTorchGroupsMax = 256;

// What the dump itself does not say.
struct TorchDumpSource {
  int rank = 0;           // in the job
  std::string backend{};  // whose recorder it is: "nccl", "gloo"; empty: see its entries
  std::uint64_t now = 0;  // ns of the wall clock
};

// Errors: protocol: no dump, or one of another format than 2.x, which are those with sequence
// numbers that count the operations of a group.
[[nodiscard]] Result<std::vector<Position>> torch_positions(std::string_view dump,
                                                            TorchDumpSource source);

}  // namespace muster::hang
