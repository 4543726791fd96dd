// SPDX-License-Identifier: Apache-2.0
// Compares the ranks' positions in their collective operations: finds ranks that are behind, and
// ranks whose operation differs from the others'. Used by judge. Pure.
#pragma once

#include "hang/evidence.hpp"

#include <optional>
#include <string>
#include <vector>

namespace muster::hang {

// For example "rank 3" or "ranks 0, 2 and 5 more".

// For example "in #119 all_reduce sum f32[25] (120 s), after #118" or "after #118 barrier, in
// none". Empty if no operation of the rank is known.
[[nodiscard]] std::string describe_position(const RankEvidence& rank);

// The operation in which the rank waits and its group, for example "#5 barrier of eval, epoch 0".
// Empty if the rank does not wait in an operation.
[[nodiscard]] std::string group_of_wait(const RankEvidence& rank);

// Ranks of the same groups that have not reached the operations in which `rank` waits.
[[nodiscard]] std::vector<int> behind(const Evidence& evidence, const RankEvidence& rank);

struct Differing {
  std::vector<int> ranks;  // the minority of the ranks
  bool skipped = false;    // the minority's operation normally follows the majority's operation
  std::string words;
};

// The first group and sequence number for which the operation is not the same on all ranks.
[[nodiscard]] std::optional<Differing> differing(const Evidence& evidence);

}  // namespace muster::hang
