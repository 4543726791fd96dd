// SPDX-License-Identifier: Apache-2.0
// RepeatedMends: detects that replacing failed workers does not help, because no worker completes
// another step, or because the same worker needs too much memory. Then all workers restart, which
// also gives them a new state. Pure; value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace muster {

// The number of mends without a completed step after which all workers restart.
inline constexpr int kMendsWithoutStep = 3;

// The number of times that the kernel may kill a rank in a round because memory runs out.
inline constexpr int kMemoryKillsOfRank = 2;

class RepeatedMends {
 public:
  // Call for each request. `rank`: the failed rank. `step`: the highest step that a rank has
  // reported; none if no rank reports steps. Returns the reason to restart all workers; empty if a
  // mend may help.
  [[nodiscard]] std::string note(int rank, bool out_of_memory, std::optional<std::uint64_t> step) {
    without_step_ = asked_ && step == step_ ? without_step_ + 1 : 0;
    asked_ = true;
    step_ = step;
    if (out_of_memory && ++memory_kills_[rank] >= kMemoryKillsOfRank) {
      return "rank " + std::to_string(rank) + " ran out of memory " +
             std::to_string(kMemoryKillsOfRank) + " times";
    }
    if (without_step_ >= kMendsWithoutStep) {
      return "no step was completed between the last " + std::to_string(without_step_ + 1) +
             " failures";
    }
    return {};
  }

 private:
  bool asked_ = false;
  std::optional<std::uint64_t> step_;
  int without_step_ = 0;
  std::map<int, int> memory_kills_;  // by rank
};

}  // namespace muster
