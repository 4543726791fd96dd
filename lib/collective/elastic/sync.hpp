// SPDX-License-Identifier: Apache-2.0
// Gives all ranks the state of the rank with the most commits. One thread.
#pragma once

#include "collective/communicator.hpp"
#include "collective/elastic/state.hpp"

#include <cstdint>
#include <span>

namespace muster::collective::elastic {

// What each rank publishes about its state. All members are 64-bit numbers.
struct StateCard {
  std::uint64_t commits = 0;  // the number of commits plus 1; 0 if the rank has no commit
  std::uint64_t layout = 0;   // State::layout()

  bool operator==(const StateCard&) const = default;
};

// The lowest rank among those with the most commits. Error: mismatch, if the layouts differ.
[[nodiscard]] Result<int> newest_rank(std::span<const StateCard> cards);

// Collective. At the start of the job, all ranks get rank 0's values. Errors: mismatch and those of
// collective operations; the last commit is then unchanged.
[[nodiscard]] Result<void> sync(State& state, Communicator& communicator);

}  // namespace muster::collective::elastic
