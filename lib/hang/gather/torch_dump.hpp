// SPDX-License-Identifier: Apache-2.0
// Converts a dump of PyTorch's flight recorder to its rank's positions, which the judge compares:
// the operations that PyTorch's backends (NCCL, gloo) have recorded. Pure; input is untrusted.
#pragma once

#include "base/error.hpp"
#include "hang/evidence.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::hang {

// Limit per rank; further process groups are omitted.
inline constexpr std::size_t kTorchGroupsMax = 256;

// Facts that are not in the dump itself.
struct TorchDumpSource {
  int rank = 0;           // rank in the job
  std::string backend{};  // "nccl", "gloo"; if empty, taken from the entries
  std::uint64_t now = 0;  // wall-clock time in ns
};

// Error: protocol, if this is not a dump in format 2.x with sequence numbers that count the
// operations of a group.
[[nodiscard]] Result<std::vector<Position>> torch_positions(std::string_view dump,
                                                            TorchDumpSource source);

}  // namespace muster::hang
