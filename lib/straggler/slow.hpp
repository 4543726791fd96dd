// SPDX-License-Identifier: Apache-2.0
// Slow: which ranks are slow, and how much job time they cost. Named and Over report the start and
// the end of a slowdown; they are also events of the job. Values.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace muster::straggler {

// A node that has slow ranks, in a multi-node job.
struct SlowPlace {
  std::string node{};
  std::vector<int> ranks{};
  bool whole = false;  // true if all ranks of the node are slow
  bool operator==(const SlowPlace&) const = default;
};

struct Slow {
  std::vector<int> ranks{};  // ascending
  double share = 0;          // fraction of the job's time that the slowdown costs
  // The duration of a step and the lost part of it, in seconds; set if the ranks report steps.
  std::optional<double> step_seconds{};
  std::optional<double> lost_seconds{};
  std::vector<SlowPlace> places{};  // empty in a single-node job
  bool operator==(const Slow&) const = default;
};

// The other ranks wait for these ranks. Not reported again until these ranks recover or different
// ranks are slow.
struct Named {
  Slow slow{};
  bool operator==(const Named&) const = default;
};

// These ranks are no longer slow.
struct Over {
  std::vector<int> ranks{};
  std::vector<SlowPlace> places{};
  bool operator==(const Over&) const = default;
};

// "rank 3", "ranks 3, 5".

// "rank 3 is slow: it costs the job 31 % of its time (0.12 s of each step of 0.39 s)"; in a
// multi-node job "rank 3 on 'h2' is slow", "node 'h2' (ranks 2, 3) is slow".
[[nodiscard]] std::string describe(const Slow& slow);

// "rank 3 is no longer slow".
[[nodiscard]] std::string describe(const Over& over);

}  // namespace muster::straggler
