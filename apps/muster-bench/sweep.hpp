// SPDX-License-Identifier: Apache-2.0
// Sweep: the same cells by every contender (the collective library in its ways, MPI, gloo, the bare
// machine), one program after the other in each round.
#pragma once

#include "apps/muster-bench/blocks.hpp"
#include "apps/muster-bench/ranks/cell.hpp"
#include "apps/muster-bench/rounds.hpp"

#include <functional>
#include <string>
#include <vector>

namespace muster::bench {

inline constexpr std::size_t kKiB = 1024;
inline constexpr std::size_t kMiB = kKiB * 1024;
inline constexpr std::size_t kGiB = kMiB * 1024;
inline constexpr int kInARow = 50;  // sums that are too short for a clock

using Words = std::vector<std::string>;

// One peer: how it is started for so many ranks.
struct Contender {
  std::string name;
  bool installed = true;
  bool slow = false;
  std::function<Words(int ranks)> words;
};

[[nodiscard]] std::vector<Contender> contenders(const Peers& peers);

// Of one run, whose exit code must be 0.
[[nodiscard]] Result<std::string> output_of(const Words& words, const Environ& environ);

struct Sweep {
  std::vector<Contender> contenders;
  std::vector<TimedCell> cells;  // how often is chosen for each contender
  int ranks = 2;
};

[[nodiscard]] Rounds run(const Sweep& sweep, const Peers& peers, int count);

[[nodiscard]] std::vector<std::string> keys_of(const Sweep& sweep);
[[nodiscard]] std::string size_name(std::size_t bytes);

}  // namespace muster::bench
