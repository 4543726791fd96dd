// SPDX-License-Identifier: Apache-2.0
#include "agent/rounds/membership_change.hpp"

#include "support/catch.hpp"
#include "worker/channel/frames.hpp"

using namespace muster;

namespace {

Round round_of(std::uint64_t number, std::vector<std::pair<NodeId, int>> members) {
  Round out;
  out.id.number = number;
  for (const auto& [id, nproc] : members) {
    NodeInfo node;
    node.id = id;
    node.name = "n" + std::to_string(id);
    node.nproc = nproc;
    out.members.push_back(node);
  }
  return out;
}

using Nodes = std::vector<channel::NodeRanks>;

}  // namespace

TEST_CASE("membership change: nodes that left have their old ranks, new nodes their new ones") {
  const auto change = membership_change(round_of(4, {{1, 2}, {2, 3}, {3, 1}}),
                                        round_of(5, {{3, 1}, {1, 2}, {7, 4}}));
  CHECK(change.left == Nodes{{"n2", 2, 3}});
  CHECK(change.joined == Nodes{{"n7", 3, 4}});
}

TEST_CASE("membership change: a restarted node is listed both as left and as joined") {
  auto before = round_of(4, {{1, 2}});
  auto now = round_of(5, {{9, 2}});
  now.members[0].name = before.members[0].name;
  const auto change = membership_change(before, now);
  CHECK((change.left == Nodes{{"n1", 0, 2}} && change.joined == Nodes{{"n1", 0, 2}}));
}

TEST_CASE(
    "membership change: empty in a node's first known round, and if the members are the same") {
  const auto round = round_of(5, {{1, 2}, {2, 2}});
  for (const Round& before : {Round{}, round}) {
    const auto change = membership_change(before, round);
    CHECK((change.left.empty() && change.joined.empty()));
  }
}

TEST_CASE("membership change: names at most a fixed number of nodes") {
  std::vector<std::pair<NodeId, int>> many;
  for (NodeId id = 10; id < 1000; ++id) {
    many.emplace_back(id, 1);
  }
  const auto change = membership_change(round_of(1, {{1, 1}}), round_of(2, many));
  CHECK(change.joined.size() == channel::kNodesNamedMax);
}

TEST_CASE("membership change: the largest change, with the longest names, fits into one frame") {
  const auto crowd = [](NodeId first) {
    Round out = round_of(1, {});
    for (NodeId id = first; id < first + channel::kNodesNamedMax; ++id) {
      NodeInfo node;
      node.id = id;
      node.name = std::string(4000, 'x');
      node.nproc = 9999;
      out.members.push_back(node);
    }
    return out;
  };
  const auto change = membership_change(crowd(1), crowd(1000));
  channel::Round frame;
  frame.epoch = UINT64_MAX;
  frame.left = change.left;
  frame.joined = change.joined;
  CHECK(frame.left.size() + frame.joined.size() == 2 * channel::kNodesNamedMax);
  CHECK(channel::encode(channel::AgentFrame(frame)).size() <= channel::kFrameBytesMax);
}
