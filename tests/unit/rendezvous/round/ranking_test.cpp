// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/round/leader/ranking.hpp"

#include "support/catch.hpp"

namespace muster {
namespace {

NodeInfo node(const std::string& name, NodeId id = 0, int node_rank = -1) {
  NodeInfo made;
  made.id = id;
  made.name = name;
  made.node_rank = node_rank;
  return made;
}

std::vector<std::string> names(const std::vector<NodeInfo>& nodes) {
  std::vector<std::string> found;
  for (const NodeInfo& each : nodes) {
    found.push_back(each.name);
  }
  return found;
}

std::vector<NodeId> ids(const std::vector<NodeInfo>& nodes) {
  std::vector<NodeId> found;
  for (const NodeInfo& each : nodes) {
    found.push_back(each.id);
  }
  return found;
}

using Names = std::vector<std::string>;
using Ids = std::vector<NodeId>;

}  // namespace

TEST_CASE("ranking: names in natural order") {
  const auto ranked =
      rank_nodes({node("node66"), node("node7"), node("node70"), node("node8")}, {}, {});
  CHECK(names(ranked) == Names{"node7", "node8", "node66", "node70"});
}

TEST_CASE("ranking: honours requested node ranks, and fills the rest with other nodes") {
  const auto ranked = rank_nodes({node("a"), node("b", 0, 0), node("c"), node("d", 0, 2)}, {}, {});
  CHECK(names(ranked) == Names{"b", "a", "d", "c"});
}

TEST_CASE("ranking: node ranks that are too high or taken come last") {
  const auto ranked = rank_nodes({node("z", 1, 0), node("y", 2, 0), node("x", 3, 9)}, {}, {});
  CHECK(names(ranked) == Names{"y", "x", "z"});
}

TEST_CASE("ranking: a list of names decides, complete or not, regardless of case") {
  const auto ranked =
      rank_nodes({node("n1.cluster"), node("n2"), node("n3"), node("n4")}, {"N4", "n1"}, {});
  CHECK(names(ranked) == Names{"n4", "n1.cluster", "n2", "n3"});
}

TEST_CASE("ranking: a member's ranks follow those of the members before it") {
  Round round;
  round.members = {node("a", 1), node("b", 2), node("c", 3)};
  round.members[0].nproc = 4;
  round.members[1].nproc = 2;
  CHECK(ranks_of(round, 1) == RankSpan{0, 4});
  CHECK(ranks_of(round, 2) == RankSpan{4, 2});
  CHECK(ranks_of(round, 3) == RankSpan{6, 1});
  CHECK(ranks_of(round, 9) == RankSpan{});
  round.members[0].nproc = round.members[1].nproc = 2'000'000'000;  // no round, but no error either
  CHECK(ranks_of(round, 3) == RankSpan{});
}

TEST_CASE("ranking: agents on one machine keep their ranks, and a new one replaces the lost one") {
  const auto first = rank_nodes({node("m", 5), node("m", 3), node("m", 9)}, {}, {});
  CHECK(ids(first) == Ids{5, 3, 9});
  CHECK(ids(rank_nodes({node("m", 9), node("m", 7), node("m", 5)}, {}, first)) == Ids{5, 7, 9});
  CHECK(ids(rank_nodes({node("m", 9), node("m", 5)}, {}, first)) == Ids{5, 9});
}

}  // namespace muster
