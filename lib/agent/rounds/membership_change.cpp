// SPDX-License-Identifier: Apache-2.0
#include "agent/rounds/membership_change.hpp"

#include "base/printable.hpp"

#include <algorithm>
#include <set>

namespace muster {
namespace {

std::set<NodeId> ids_of(const Round& round) {
  std::set<NodeId> out;
  for (const NodeInfo& node : round.members) {
    out.insert(node.id);
  }
  return out;
}

// Members of `round` that are not in `others`, with their ranks.
std::vector<channel::NodeRanks> only_in(const Round& round, const std::set<NodeId>& others) {
  std::vector<channel::NodeRanks> out;
  int rank = 0;
  for (const NodeInfo& node : round.members) {
    if (!others.contains(node.id) && out.size() < channel::kNodesNamedMax) {
      out.push_back({printable(node.name, channel::kNodeNameBytesMax), rank, node.nproc});
    }
    rank += node.nproc;
  }
  return out;
}

}  // namespace

event::MembershipChange membership_change(const Round& before, const Round& now) {
  if (before.id.number == 0) {
    return {};
  }
  return {only_in(before, ids_of(now)), only_in(now, ids_of(before))};
}

}  // namespace muster
