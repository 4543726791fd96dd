// SPDX-License-Identifier: Apache-2.0
#include "hang/report/whole_job.hpp"

#include "support/catch.hpp"

#include <string>
#include <utility>
#include <vector>

namespace muster::hang {
namespace {

constexpr double kLimit = 10;
constexpr double kQuiet = 12;

using Nodes = std::vector<std::string>;

// As reported by a node: the rank waits in operation 7 of all four ranks.
RankEvidence waiting(int rank) {
  RankEvidence out{.rank = rank, .quiet = kQuiet, .lifeless = kQuiet, .strong = true};
  out.own = OwnCause{
      .cause = Cause::waits_for_rank, .reason = "waits in barrier", .collective = "barrier"};
  out.positions.push_back({.group = "world",
                           .rank = rank,
                           .size = 4,
                           .entered = 7,
                           .pending = {{.number = 7, .what = "barrier"}}});
  return out;
}

RankEvidence sleeping(int rank) {
  RankEvidence out{.rank = rank, .quiet = kQuiet, .lifeless = kQuiet, .strong = true};
  out.own = OwnCause{.cause = Cause::sleeps, .reason = "sleeps in main (train.py:3)"};
  out.positions.push_back({.group = "world", .rank = rank, .size = 4, .entered = 6});
  return out;
}

// Two nodes with two ranks each; rank 2, on the second node, sleeps.
std::vector<NodeFindings> two_nodes() {
  NodeFindings a{.name = "a", .rank_first = 0, .ranks = 2};
  a.evidence = {.limit = kLimit, .progress = kQuiet, .ranks = {waiting(0), waiting(1)}};
  NodeFindings b{.name = "b", .rank_first = 2, .ranks = 2};
  b.evidence = {.limit = kLimit, .progress = kQuiet, .ranks = {sleeping(2), waiting(3)}};
  return {a, b};
}

bool has_gap(const WholeVerdict& whole, const std::string& text) {
  for (const std::string& gap : whole.facts.gaps) {
    if (gap == text) {
      return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("blames a rank on another node, and names its node") {
  const WholeVerdict whole = judge_all(two_nodes());
  CHECK(whole.counts);
  CHECK(whole.verdict.cause == Cause::sleeps);
  CHECK(whole.verdict.ranks == std::vector{2});
  CHECK(whole.verdict.nodes == Nodes{"b"});
  CHECK(whole.acting_rank == 2);
  CHECK(whole.facts.quiet == kQuiet);
  CHECK(whole.facts.limit == kLimit);
  CHECK(whole.facts.gaps.empty());
  CHECK(headline(whole.verdict) == "rank 2 on 'b': sleeps in main (train.py:3)");
  REQUIRE(whole.verdict.groups.size() == 2);
  CHECK(whole.verdict.groups[1].ranks == std::vector{0, 1, 3});
  CHECK(whole.verdict.groups[1].nodes == Nodes{"a", "b"});
  CHECK(whole.verdict.groups[1].waits_for == std::vector{2});
}

TEST_CASE("without flight recorders, ranks in an operation are the waiting ones") {
  auto nodes = two_nodes();
  for (NodeFindings& node : nodes) {
    for (RankEvidence& rank : node.evidence.ranks) {
      rank.positions.clear();
    }
  }
  CHECK(judge_all(nodes).verdict.ranks == std::vector{2});
}

TEST_CASE("does not compare ranks that have a flight recorder with ranks that have none") {
  auto nodes = two_nodes();
  nodes[1].evidence.ranks[0] = waiting(2);
  for (RankEvidence& rank : nodes[1].evidence.ranks) {
    rank.positions.clear();
    rank.own->reason = "waits in barrier in main (train.py:9)";
  }
  CHECK(judge_all(nodes).verdict.cause == Cause::all_wait);
}

TEST_CASE("a silent node is the cause if other ranks wait for its ranks") {
  auto nodes = two_nodes();
  nodes[1] = {.name = "b", .rank_first = 2, .ranks = 2, .state = NodeState::silent, .waited = 4};
  const WholeVerdict whole = judge_all(nodes);
  CHECK(whole.counts);
  CHECK(whole.verdict.cause == Cause::node_silent);
  CHECK(whole.verdict.ranks == std::vector{2, 3});
  CHECK(headline(whole.verdict) == "ranks 2, 3 on 'b': its node has been silent for 4 s");
  CHECK(has_gap(whole, "node 'b': has been silent for 4 s"));
  CHECK(whole.acting_rank == 0);
}

TEST_CASE("a silent node is not the cause if another rank is") {
  auto nodes = two_nodes();
  nodes.push_back(
      {.name = "c", .rank_first = 4, .ranks = 1, .state = NodeState::silent, .waited = 4});
  const WholeVerdict whole = judge_all(nodes);
  CHECK(whole.verdict.ranks == std::vector{2});
  CHECK(has_gap(whole, "node 'c': has been silent for 4 s"));
}

TEST_CASE("lists each gap once, with all nodes to which it applies") {
  auto nodes = two_nodes();
  nodes[0].evidence.gaps = {"no Python stacks"};
  nodes[1].evidence.gaps = {"no Python stacks"};
  nodes.push_back({.name = "c", .rank_first = 4, .ranks = 2, .state = NodeState::off});
  nodes.push_back({.name = "d", .rank_first = 6, .ranks = 2, .state = NodeState::unreadable});
  nodes.push_back(
      {.name = "e", .rank_first = 8, .ranks = 2, .state = NodeState::late, .waited = 10});
  const WholeVerdict whole = judge_all(nodes);
  CHECK(whole.facts.gaps.size() == 4);
  CHECK(has_gap(whole, "nodes 'a', 'b': no Python stacks"));
  CHECK(has_gap(whole, "node 'c': does not detect hangs: pass --hang-timeout there, too"));
  CHECK(has_gap(whole, "node 'd': sent an unreadable answer"));
  CHECK(has_gap(whole, "node 'e': did not answer within 10 s"));
}

TEST_CASE("ranks may wait for nodes that cannot be inspected, and no rank is blamed") {
  auto nodes = two_nodes();
  nodes[1].state = NodeState::off;
  const WholeVerdict whole = judge_all(nodes);
  CHECK(whole.verdict.cause == Cause::waits_for_rank);
  CHECK(whole.verdict.reason == "the ranks are waiting for ranks that could not be inspected");
}

TEST_CASE("an active rank is slow, not hung, on any node") {
  auto nodes = two_nodes();
  nodes[1].evidence.ranks[0].lifeless = 1;
  CHECK_FALSE(judge_all(nodes).counts);
  nodes[1].evidence.ranks[0].quiet = 10 * kLimit;
  CHECK(judge_all(nodes).counts);
  nodes = two_nodes();
  nodes[1].evidence.ranks[0].quiet = 1;  // it has just completed a step
  CHECK_FALSE(judge_all(nodes).counts);
  nodes[1].evidence.ranks[0].own->cause = Cause::stopped;
  CHECK(judge_all(nodes).counts);
}

TEST_CASE("output of one rank is progress of all ranks without their own source") {
  auto nodes = two_nodes();
  for (NodeFindings& node : nodes) {
    for (RankEvidence& rank : node.evidence.ranks) {
      rank.strong = false;
    }
  }
  CHECK(judge_all(nodes).counts);
  nodes[0].evidence.progress = 0.5;
  nodes[0].evidence.ranks[0].quiet = 0.5;
  CHECK_FALSE(judge_all(nodes).counts);
}

TEST_CASE("no rank hangs if all made progress during the inquiry") {
  auto nodes = two_nodes();
  for (NodeFindings& node : nodes) {
    for (RankEvidence& rank : node.evidence.ranks) {
      rank.quiet = 1;
    }
  }
  CHECK_FALSE(judge_all(nodes).counts);
}

TEST_CASE("no action on a rank that has exited") {
  auto nodes = two_nodes();
  nodes[1].evidence.ranks[0].ended = true;
  nodes[1].evidence.ranks[0].own = OwnCause{.reason = "has ended"};
  const WholeVerdict whole = judge_all(nodes);
  CHECK(whole.verdict.cause == Cause::skipped_collective);
  CHECK(whole.verdict.ranks == std::vector{2});
  CHECK(whole.acting_rank == 0);
  nodes[1] = {.name = "b", .rank_first = 2, .ranks = 2, .state = NodeState::finished};
  CHECK(judge_all(nodes).acting_rank == 0);
}

TEST_CASE("ignores a report about ranks on another node") {
  auto nodes = two_nodes();
  nodes[1].evidence.ranks[0].rank = 0;  // on the other node
  nodes[1].evidence.ranks[1].rank = -7;
  const WholeVerdict whole = judge_all(nodes);
  CHECK(has_gap(whole, "node 'b': reported 0 of its 2 ranks"));
  CHECK(whole.verdict.ranks != std::vector{2});
  nodes[1].evidence.ranks[0].rank = 3;
  nodes[1].evidence.ranks[1].rank = 3;  // twice
  CHECK(has_gap(judge_all(nodes), "node 'b': reported 1 of its 2 ranks"));
}

TEST_CASE("an answer without ranks does not affect the limit") {
  auto nodes = two_nodes();
  nodes[1].evidence = {};
  CHECK(judge_all(nodes).facts.limit == kLimit);
  nodes[0].evidence = {};
  CHECK_FALSE(judge_all(nodes).counts);
}

TEST_CASE("a lock holder's pid is valid only on the node that reported it") {
  Evidence seen{.limit = kLimit};
  RankEvidence one{.rank = 4, .quiet = kQuiet};
  ThreadFacts thread{.tid = 100, .state = 'S'};
  thread.wait = {.kind = WaitKind::file_lock, .path = "/shared/lock", .holder = 200};
  one.processes.push_back({.pid = 100, .state = 'S', .threads = {thread}});
  RankEvidence two{.rank = 5, .quiet = kQuiet};
  ThreadFacts sleeper{.tid = 200, .state = 'S'};
  sleeper.wait.kind = WaitKind::sleep;
  two.processes.push_back({.pid = 200, .state = 'S', .threads = {sleeper}});
  seen.ranks = {one, two};
  const Evidence told = summary_of(seen);
  REQUIRE(told.ranks.size() == 2);
  CHECK(told.ranks[0].processes.empty());
  CHECK(told.ranks[0].own->holder_rank == 5);
  CHECK(told.ranks[1].own->cause == Cause::sleeps);

  NodeFindings node{.name = "b", .rank_first = 4, .ranks = 2, .evidence = told};
  const WholeVerdict whole = judge_all({node});
  CHECK(whole.verdict.cause == Cause::sleeps);
  CHECK(whole.verdict.ranks == std::vector{5});
}

}  // namespace muster::hang
