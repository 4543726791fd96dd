// SPDX-License-Identifier: Apache-2.0
// A spare takes the place of a node on which the first failures of rounds happen.
#include "made_worlds.hpp"
#include "rendezvous/round/leader/first_failures.hpp"
#include "support/catch.hpp"

#include <string>
#include <vector>

namespace muster {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

// n0 leads a round with n1, and the nodes after them are spares.
SmallWorld spare_world(int spares, NodeSettings made = settings(2, 2, 100)) {
  SmallWorld world(made);
  for (int i = 0; i < 2 + spares; ++i) {
    world.add("n" + std::to_string(i), i == 0);
  }
  return world;
}

WorkerFailedHere failure_on(const SmallWorld& world, std::size_t node, const std::string& cause) {
  WorkerFailedHere failed;
  failed.message.round = world.nodes[node].running->round->id;
  failed.message.rank = world.nodes[node].running->group_rank;
  failed.message.run_time = std::chrono::hours(1);
  failed.message.text = "killed by SIGSEGV";
  failed.message.node_cause = cause;
  failed.seen_at = world.now();
  return failed;
}

void fail_node(SmallWorld& world, std::size_t node, const std::string& cause = "signal") {
  world.feed(node, failure_on(world, node, cause));
  world.pass(seconds(1));
}

}  // namespace

TEST_CASE("replacing: only failures within the window count, for each node") {
  FirstFailures failures{minutes(30)};
  const TimePoint begin{};
  CHECK(failures.note(begin, {1, 0, "signal"}) == 1);
  CHECK(failures.note(begin + minutes(1), {2, 1, "signal"}) == 1);
  CHECK(failures.note(begin + minutes(29), {1, 2, "hardware"}) == 2);
  CHECK(failures.count(begin + minutes(30), 1) == 1);
  CHECK(failures.note(begin + minutes(30), {1, 0, "signal"}) == 2);
  CHECK(failures.count(begin + minutes(90), 1) == 0);
}

TEST_CASE("replacing: a failure that moves with its rank is not a node's") {
  FirstFailures failures{minutes(30)};
  const TimePoint begin{};
  failures.note(begin, {1, 7, "signal"});
  CHECK_FALSE(failures.has_moved(begin, {2, 7, "signal"}));
  failures.note(begin, {1, 7, kRepeatedSignal});
  CHECK(failures.has_moved(begin, {2, 7, "signal"}));
  CHECK(failures.has_moved(begin, {2, 7, kRepeatedSignal}));
  CHECK_FALSE(failures.has_moved(begin, {1, 7, "signal"}));
  CHECK_FALSE(failures.has_moved(begin, {2, 8, "signal"}));
  CHECK_FALSE(failures.has_moved(begin, {2, 7, "hardware"}));
  CHECK_FALSE(failures.has_moved(begin + minutes(30), {2, 7, "signal"}));
}

TEST_CASE("replacing: a spare takes the place of a node that failed first twice") {
  SmallWorld world = spare_world(1);
  fail_node(world, 1);
  CHECK(ranks(world) == std::vector{0, 1, -1});
  fail_node(world, 1);
  CHECK(ranks(world) == std::vector{0, -1, 1});
  CHECK(world.nodes[1].ended == "replaced");
  REQUIRE(world.nodes[0].suspects.size() == 1);
  const SuspectNode& suspect = world.nodes[0].suspects[0];
  CHECK(suspect.node == "n1");
  CHECK(suspect.cause == "signal");
  CHECK(suspect.is_replaced);
  CHECK(suspect.text == "the first failure of 2 rounds within 1800s was on node 'n1'");
}

TEST_CASE("replacing: without a spare the node stays, and the user learns it once") {
  SmallWorld world = spare_world(0);
  for (int i = 0; i < 4; ++i) {
    fail_node(world, 1);
  }
  CHECK(ranks(world) == std::vector{0, 1});
  REQUIRE(world.nodes[0].suspects.size() == 1);
  CHECK_FALSE(world.nodes[0].suspects[0].is_replaced);
  world.add("n2");
  fail_node(world, 1);
  CHECK(ranks(world) == std::vector{0, -1, 1});
  CHECK(world.nodes[0].suspects.back().is_replaced);
}

TEST_CASE("replacing: if the same signal repeats, only a spare shows whether the node is bad") {
  SmallWorld alone = spare_world(0);
  SmallWorld world = spare_world(2);
  for (SmallWorld* each : {&alone, &world}) {
    fail_node(*each, 1);
    fail_node(*each, 1, kRepeatedSignal);
  }
  CHECK(alone.nodes[0].suspects.empty());
  fail_node(alone, 1, "hardware");
  CHECK(alone.nodes[0].suspects.size() == 1);
  REQUIRE(world.nodes[0].suspects.size() == 1);
  CHECK(world.nodes[0].suspects[0].cause == kRepeatedSignal);
  CHECK(ranks(world)[1] == -1);
}

TEST_CASE("replacing: failures that any node could have had do not count") {
  SmallWorld world = spare_world(1);
  for (int i = 0; i < 3; ++i) {
    fail_node(world, 1, "");
  }
  CHECK(ranks(world) == std::vector{0, 1, -1});
  CHECK(world.nodes[0].suspects.empty());
}

TEST_CASE("replacing: failures of different nodes, or long ago, do not add up") {
  SmallWorld world = spare_world(1);
  fail_node(world, 1);
  fail_node(world, 0);
  CHECK(ranks(world) == std::vector{0, 1, -1});
  world.pass(minutes(31));
  fail_node(world, 1);
  CHECK(ranks(world) == std::vector{0, 1, -1});
}

TEST_CASE("replacing: only the first failure of a round counts") {
  SmallWorld world = spare_world(1);
  for (int i = 0; i < 3; ++i) {
    const WorkerFailedHere second = failure_on(world, 1, "signal");
    world.nodes[1].obedient = false;
    world.feed(0, failure_on(world, 0, ""));
    world.feed(1, second);
    world.nodes[1].obedient = true;
    world.nodes[1].running.reset();
    world.feed(1, WorkersGone{});
    world.pass(seconds(1));
  }
  CHECK(ranks(world) == std::vector{0, 1, -1});
  CHECK(world.nodes[0].suspects.empty());
}

TEST_CASE("replacing: the leader is replaced, too") {
  SmallWorld world = spare_world(1);
  fail_node(world, 0);
  fail_node(world, 0);
  CHECK(world.nodes[0].ended == "replaced");
  CHECK(ranks(world) == std::vector{-1, 0, 1});
}

TEST_CASE("replacing: off without a cool-down") {
  NodeSettings made = settings(2, 2, 100);
  made.cool_down = {};
  SmallWorld world = spare_world(1, made);
  for (int i = 0; i < 3; ++i) {
    fail_node(world, 1);
  }
  CHECK(ranks(world) == std::vector{0, 1, -1});
}

TEST_CASE("replacing: a node that waits for its workers leaves once they have exited") {
  SmallWorld world = spare_world(1);
  fail_node(world, 1);
  world.nodes[1].obedient = false;
  fail_node(world, 1);
  CHECK(world.nodes[1].ended.empty());
  CHECK(ranks(world) == std::vector{-1, 1, -1});
  world.feed(1, WorkersGone{});
  CHECK(world.nodes[1].ended == "replaced");
  CHECK(ranks(world) == std::vector{0, -1, 1});
}

TEST_CASE("replacing: a last resort is chosen after all other nodes, for a while") {
  SmallWorld world(settings(2, 2, 100));
  world.add("n0", true);
  world.add("n1", false, std::nullopt, minutes(30));
  CHECK(ranks(world) == std::vector{-1, -1});
  world.add("n2");
  CHECK(ranks(world) == std::vector{0, -1, 1});
  // It is no spare for a node that fails twice.
  fail_node(world, 2);
  fail_node(world, 2);
  CHECK(ranks(world) == std::vector{0, -1, 1});
  world.kill(2);
  world.pass(seconds(1));
  CHECK(ranks(world) == std::vector{0, 1, -1});
}

TEST_CASE("replacing: a last resort is a spare like any other after its time") {
  SmallWorld world(settings(2, 2, 100));
  world.add("n0", true);
  world.add("n1", false, std::nullopt, minutes(30));
  world.add("n2");
  world.pass(minutes(31));
  fail_node(world, 2);
  fail_node(world, 2);
  CHECK(ranks(world) == std::vector{0, 1, -1});
}

TEST_CASE("replacing: the first round waits only a moment for nodes better than a last resort") {
  SmallWorld world(settings(2, 2, 100));
  world.add("n0", true);
  world.add("n1", false, std::nullopt, minutes(30));
  world.pass(seconds(2));
  CHECK(ranks(world) == std::vector{-1, -1});
  world.pass(seconds(2));
  CHECK(ranks(world) == std::vector{0, 1});
}

TEST_CASE("replacing: a node that rejoins founds no job, and soon gives up") {
  NodeSettings made = settings(1, 2, 100);
  made.rejoins = true;
  made.join_timeout = minutes(10);
  SmallWorld world(made);
  world.add("n0", true);
  world.pass(seconds(29));
  CHECK(ranks(world) == std::vector{-1});
  CHECK(world.nodes[0].ended.empty());
  world.pass(seconds(2));
  CHECK(world.nodes[0].ended.starts_with("failed"));
}

TEST_CASE("replacing: with --restart=rank, replaced ranks count") {
  SmallWorld world = spare_world(1);
  for (const std::size_t node : {0U, 1U}) {
    world.feed(node, MendedHere{world.nodes[node].running->round->id.number});
  }
  LackingHere request;
  request.message.ranks = {1};
  request.message.cause = failure_on(world, 1, "signal").message;
  request.seen_at = world.now();
  request.message.number = 1;
  world.feed(1, request);
  REQUIRE(world.nodes[1].mends.size() == 1);
  for (const std::size_t node : {0U, 1U}) {
    world.feed(node, MendedHere{world.nodes[node].mends[0].mends.epoch});
  }
  request.message.number = 2;
  world.feed(1, request);
  REQUIRE(world.nodes[1].refused_mends.size() == 1);
  CHECK(world.nodes[1].refused_mends[0].reason == "a spare takes the place of the node");
  fail_node(world, 1);
  CHECK(world.nodes[1].ended == "replaced");
  CHECK(ranks(world) == std::vector{0, -1, 1});
}

}  // namespace muster
