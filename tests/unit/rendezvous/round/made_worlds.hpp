// SPDX-License-Identifier: Apache-2.0
// The worlds with which most tests of rounds begin, and functions to inspect them.
#pragma once

#include "small_world.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace muster {

inline NodeSettings settings(int min, int max, int restarts = 0) {
  NodeSettings made;
  made.terms = JobTerms{"job", "c10d", min, max, restarts, "1"};
  made.endpoints = {Endpoint{"endpoint", 1}};
  return made;
}

// Group ranks of the running nodes; -1: not running.
inline std::vector<int> ranks(const SmallWorld& world) {
  std::vector<int> found;
  for (const SmallNode& node : world.nodes) {
    found.push_back(node.running ? node.running->group_rank : -1);
  }
  return found;
}

inline SmallWorld running_world(int count, int min, int restarts = 0) {
  SmallWorld world(settings(min, count, restarts));
  for (int i = 0; i < count; ++i) {
    world.add("n" + std::to_string(i), i == 0);
  }
  return world;
}

inline void fail_worker(SmallWorld& world, std::size_t node, int code) {
  Failed failed;
  failed.round = world.nodes[node].running->round->id;
  failed.rank = world.nodes[node].running->group_rank;
  failed.exit_code = code;
  failed.run_time = std::chrono::hours(1);
  failed.text = "exited with code " + std::to_string(code);
  world.feed(node, WorkerFailedHere{failed, world.now(), {}, false});
  world.feed(node, Details{failed.round, failed.rank, "details"});
}

}  // namespace muster
