// SPDX-License-Identifier: Apache-2.0
// Random fleets of healthy nodes: equal hosts whose figures differ as much as on real hosts.
#pragma once

#include "check/judge.hpp"
#include "support/seed.hpp"

#include <string>
#include <vector>

namespace muster::check {

// A number between 1 - share and 1 + share.
inline double noise(testing::Dice& dice, double share) {
  return 1 + share * (static_cast<double>(dice.below(2001)) / 1000 - 1);
}

inline std::vector<NodeReport> healthy_fleet(testing::Dice& dice, int nodes) {
  const double cores = 2 << dice.below(7);
  const double gpus = dice.below(2) == 0 ? 0 : 8;
  const double limit = dice.below(2) == 0 ? 1024 : 1048576;
  std::vector<NodeReport> out;
  for (int i = 0; i < nodes; ++i) {
    NodeReport node{"node" + std::to_string(i)};
    node.figures.values = {{Metric::cpus, cores},
                           {Metric::cpu_speed, 5e8 * noise(dice, 0.2)},
                           {Metric::memory_bandwidth, 11.8e9 * noise(dice, 0.3)},
                           {Metric::memory_free, 64e9 * noise(dice, 0.3)},
                           {Metric::shm_size, 32e9},
                           {Metric::shm_free, 31e9 * noise(dice, 0.03)},
                           {Metric::disk_free, 200e9 * noise(dice, 0.99)},
                           {Metric::disk_files_free, 5e6 * noise(dice, 0.9)},
                           {Metric::open_files, limit},
                           {Metric::processes, 96000},
                           {Metric::locked_memory, 8e6},
                           {Metric::clock_offset, 0.02 + 0.1 * (noise(dice, 1) - 1)},
                           {Metric::gpus, gpus}};
    if (gpus > 0) {
      node.figures.values[Metric::gpu_ecc_errors] = 0;
      node.figures.values[Metric::gpus_throttled] = 0;
      node.figures.values[Metric::gpu_memory_used] = 4e6 * noise(dice, 0.9);
    }
    for (const int distance : link_distances(nodes)) {
      node.figures.links.push_back(
          {(i + distance) % nodes, 150e-6 * noise(dice, 0.6), 1.2e9 * noise(dice, 0.4)});
    }
    out.push_back(std::move(node));
  }
  return out;
}

}  // namespace muster::check
