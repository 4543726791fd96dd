// SPDX-License-Identifier: Apache-2.0
// A crowd of nodes: one real coordinator in a separate process, and thousands of follower
// connections. The followers join, one of them is lost, and the others regroup. After that they
// only send heartbeats. Called by the tool `crowd`.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"

#include <cstddef>

namespace muster::bench {

struct CrowdPlan {
  std::size_t nodes = 1000;  // connections, not counting the coordinator
  Duration lease = std::chrono::seconds(9);
  Duration idle = std::chrono::seconds(5);  // how long to observe the idle coordinator
  bool sealed = false;                      // connections use TLS with a job token
};

struct Crowd {
  Duration joined{};                 // until all nodes are connected and welcomed
  Duration started{};                // until all nodes have received their first Start
  Duration regrouped{};              // from a loss until all other nodes have their second Start
  double idle_share = 0;             // fraction of one core used by the coordinator
  double bytes_per_node_second = 0;  // both directions, without TCP headers
  double messages_per_node = 0;      // received by a node from its Hello to its first Start
};

[[nodiscard]] Result<Crowd> measure_crowd(const CrowdPlan& plan);

}  // namespace muster::bench
