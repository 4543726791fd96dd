// SPDX-License-Identifier: Apache-2.0
// TwoNodes: two nodes with two ranks each run a simulated job. Each node reports its ranks' wait
// times when its timer expires, in the middle of an operation, by its own clock.
#pragma once

#include "simulated_job.hpp"
#include "straggler/job_waits.hpp"
#include "straggler/straggler_core.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

namespace muster::straggler {

struct TwoNodes {
  SimulatedJob job;
  double each = 1;  // seconds between two reports from a node
  JobWaits waits{};
  StragglerCore core{};
  std::vector<StragglerEffect> effects{};
  std::array<double, 2> next = {0.3 * each, 0.9 * each};

  // Runs until that time on the job's clock, or until something is reported.
  void play(double until) {
    while (job.now() < until && effects.empty()) {
      const auto seen = job.look();  // until the operation has completed
      job.operate();
      for (std::size_t node = 0; node < next.size(); ++node) {
        if (job.now() >= next[node]) {
          tell(node, seen);
          next[node] = std::max(job.now(), next[node] + each * (1 + 0.05 * job.part()));
        }
      }
    }
  }

  void tell(std::size_t node, const std::vector<RankWaits>& seen) {
    const double moment = next[node];
    NodeWaits told{.node = node == 0 ? "a" : "b", .rank_first = static_cast<int>(2 * node)};
    told.ranks = 2;
    for (std::size_t i = 0; i < 2; ++i) {
      told.waits.push_back(seen[2 * node + i]);
      told.waits[i].at = SimulatedJob::of_seconds(moment + 1000 * static_cast<double>(node + 1));
    }
    const TimePoint now(SimulatedJob::of_seconds(moment));
    waits.take(now, std::move(told));
    if (const auto ranks = waits.next(now)) {
      core.looked(now, *ranks, effects);
    }
  }
};

}  // namespace muster::straggler
