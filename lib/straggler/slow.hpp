// SPDX-License-Identifier: Apache-2.0
// Slow: which ranks are slow, and what that costs the job. Named, Over: the reports about them,
// which are also events of the job. Values.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace muster::straggler {

// In a job of many nodes, the node of some slow ranks.
struct SlowPlace {
  std::string node{};
  std::vector<int> ranks{};
  bool whole = false;  // all ranks of the node
  bool operator==(const SlowPlace&) const = default;
};

struct Slow {
  std::vector<int> ranks{};  // ascending
  double share = 0;          // of the job's time that it would save without the slowdown
  // If the ranks report steps: seconds per step, and the part that is lost.
  std::optional<double> step_seconds{};
  std::optional<double> lost_seconds{};
  std::vector<SlowPlace> places{};  // one node: none
  bool operator==(const Slow&) const = default;
};

// The others wait for these ranks. Reported once, until it is over or other ranks are slow.
struct Named {
  Slow slow{};
  bool operator==(const Named&) const = default;
};

// They are no longer slow.
struct Over {
  std::vector<int> ranks{};
  std::vector<SlowPlace> places{};
  bool operator==(const Over&) const = default;
};

// "rank 3", "ranks 3, 5".
[[nodiscard]] std::string name_ranks(const std::vector<int>& ranks);

// "rank 3 is slow: it costs the job 31 % of its time (0.12 s of each step of 0.39 s)"; with many
// nodes "rank 3 on 'h2' is slow", "node 'h2' (ranks 2, 3) is slow".
[[nodiscard]] std::string describe(const Slow& slow);

// "rank 3 is no longer slow".
[[nodiscard]] std::string describe(const Over& over);

}  // namespace muster::straggler
