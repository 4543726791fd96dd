// SPDX-License-Identifier: Apache-2.0
// Converts a dump of PyTorch's flight recorder to its rank's positions: the operations that
// PyTorch's backends (NCCL, gloo) recorded, for the judge to compare. Pure; input is untrusted.
#pragma once

#include "base/error.hpp"
#include "hang/evidence.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::hang {

// Per rank; further process groups are left out.
inline constexpr std::size_t kTorchGroupsMax = 256;

// What the dump itself does not contain.
struct TorchDumpSource {
  int rank = 0;           // in the job
  std::string backend{};  // "nccl", "gloo"; empty: take it from the entries
  std::uint64_t now = 0;  // ns of the wall clock
};

// Errors: protocol: not a dump, or not format 2.x with sequence numbers that count the operations
// of a group.
[[nodiscard]] Result<std::vector<Position>> torch_positions(std::string_view dump,
                                                            TorchDumpSource source);

}  // namespace muster::hang
