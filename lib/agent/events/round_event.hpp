// SPDX-License-Identifier: Apache-2.0
// What the events of a round say about its nodes. Values.
#pragma once

#include "worker/channel/frames.hpp"

#include <string>
#include <vector>

namespace muster {

// One node of a round, as all others know it.
struct RoundNode {
  std::string name;
  std::string address;
  int workers = 0;
  bool operator==(const RoundNode&) const = default;
};

namespace event {

// Nodes that are in one of two rounds only.
struct MembershipChange {
  std::vector<channel::NodeRanks> left;    // with their ranks of the round before
  std::vector<channel::NodeRanks> joined;  // with their ranks of this one
};

}  // namespace event
}  // namespace muster
