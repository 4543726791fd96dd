// SPDX-License-Identifier: Apache-2.0
// A crowd of nodes: one real coordinator in a process of its own, and thousands of connections of
// followers, which all join, lose one of theirs, meet again, and then only give signs of life.
// Called by the tool `crowd`.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"

#include <cstddef>

namespace muster::bench {

struct CrowdPlan {
  std::size_t nodes = 1000;  // connections; the coordinator is one more
  Duration lease = std::chrono::seconds(9);
  Duration idle = std::chrono::seconds(5);  // how long to look at the idle coordinator
  bool sealed = false;                      // with a token
};

struct Crowd {
  Duration joined{};                 // all are connected and welcomed
  Duration started{};                // … and have got their first Start
  Duration regrouped{};              // from the loss of one until all others got their second Start
  double idle_share = 0;             // of one core, by the coordinator
  double bytes_per_node_second = 0;  // both directions, without the headers of TCP
  double messages_per_node = 0;      // read by a node from its Hello to its first Start
};

[[nodiscard]] Result<Crowd> measure_crowd(const CrowdPlan& plan);

}  // namespace muster::bench
