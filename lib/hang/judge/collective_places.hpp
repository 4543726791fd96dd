// SPDX-License-Identifier: Apache-2.0
// Compares the ranks' positions in their collective operations: which ranks are behind, and which
// ranks' operation differs. Used by judge. Pure.
#pragma once

#include "hang/evidence.hpp"

#include <optional>
#include <string>
#include <vector>

namespace muster::hang {

// "rank 3", "ranks 0, 2 and 5 more".
[[nodiscard]] std::string ranks_text(const std::vector<int>& ranks);

// "in #119 all_reduce sum f32[25] (120 s), after #118"; "after #118 barrier, in none"; empty: no
// operation of the rank is known.
[[nodiscard]] std::string describe_position(const RankEvidence& rank);

// "#5 barrier of eval, epoch 0": the operation that it waits in, and its group; empty: none.
[[nodiscard]] std::string group_of_wait(const RankEvidence& rank);

// Ranks of the same groups that have not reached the operations that `rank` waits in.
[[nodiscard]] std::vector<int> behind(const Evidence& evidence, const RankEvidence& rank);

struct Differing {
  std::vector<int> ranks;  // the minority
  bool skipped = false;    // the others call this operation next
  std::string words;
};

// The first group and number whose operation is not the same on all ranks.
[[nodiscard]] std::optional<Differing> differing(const Evidence& evidence);

}  // namespace muster::hang
