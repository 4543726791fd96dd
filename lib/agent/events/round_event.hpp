// SPDX-License-Identifier: Apache-2.0
// Node data in the events of a round. Values.
#pragma once

#include "worker/channel/frames.hpp"

#include <string>
#include <vector>

namespace muster {

// One node in a round. The data is identical on all nodes.
struct RoundNode {
  std::string name;
  std::string address;
  int workers = 0;
  bool operator==(const RoundNode&) const = default;
};

namespace event {

// Nodes that are in only one of two consecutive rounds.
struct MembershipChange {
  std::vector<channel::NodeRanks> left;    // with their ranks in the previous round
  std::vector<channel::NodeRanks> joined;  // with their ranks in this round
};

}  // namespace event
}  // namespace muster
