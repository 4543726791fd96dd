// SPDX-License-Identifier: Apache-2.0
// Members that the user declares dead (musterctl forget).
#include "made_worlds.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <string>

namespace muster {

using namespace std::chrono_literals;

namespace {

int running(const SmallWorld& world) {
  const auto found = ranks(world);
  return static_cast<int>(std::ranges::count_if(found, [](int rank) { return rank >= 0; }));
}

// The first node is silent for a minute, loses power, and returns without a record.
SmallWorld waiting_world() {
  SmallWorld world = running_world(2, 2);
  REQUIRE(running(world) == 2);
  world.cut(0);
  world.pass(60s);
  world.heal(0);
  world.kill(0);
  world.add("n0", true);
  world.pass(100s);
  REQUIRE(running(world) == 0);
  return world;
}

std::string why_not(const SmallWorld& world, std::size_t node, const std::string& name) {
  return world.nodes[node].core->why_not_forget(name);
}

}  // namespace

TEST_CASE("forgetting: the job continues without the member that it waited for") {
  SmallWorld world = waiting_world();
  REQUIRE(why_not(world, 1, "n0").empty());
  world.feed(1, ForgetNode{"n0"});
  world.pass(1s);
  CHECK(ranks(world) == std::vector{-1, 1, 0});
}

TEST_CASE("forgetting: a silent member that the user declares dead is not waited for") {
  SmallWorld world = running_world(2, 1);
  REQUIRE(running(world) == 2);
  world.cut(0);
  world.pass(60s);
  REQUIRE(ranks(world)[1] == -1);
  world.feed(1, ForgetNode{"n0"});
  world.pass(1s);
  CHECK(ranks(world)[1] == 0);
}

TEST_CASE("forgetting: agents that were started again are a quorum without the dead member") {
  NodeSettings made = settings(2, 3);
  made.records = true;
  SmallWorld world(made);
  for (int i = 0; i < 3; ++i) {
    world.add("n" + std::to_string(i), i == 0);
  }
  REQUIRE(running(world) == 3);
  world.cut(2);
  world.kill_all({0, 1});
  world.add("n0", true, world.nodes[0].record);
  world.add("n1", false, world.nodes[1].record);
  world.pass(100s);
  REQUIRE(ranks(world) == std::vector{-1, -1, -1, -1, -1});
  world.feed(3, ForgetNode{"n2"});
  world.pass(1s);
  CHECK(ranks(world) == std::vector{-1, -1, -1, 0, 1});
}

TEST_CASE("forgetting: only the leader of a job that waits for the node does it") {
  SmallWorld world = waiting_world();
  CHECK(why_not(world, 2, "n0") == "node 'n1' leads this job: run musterctl forget n0 there");
  CHECK_THAT(why_not(world, 1, "n7"),
             Catch::StartsWith("this job is not waiting for a lost node 'n7'"));
  CHECK_THAT(why_not(world, 1, "n1"), Catch::StartsWith("this job is not waiting for a lost node"));
  world.feed(1, ForgetNode{"n7"});
  world.feed(2, ForgetNode{"n0"});
  world.pass(10s);
  CHECK(running(world) == 0);
  SmallWorld runs = running_world(2, 2);
  CHECK_THAT(why_not(runs, 0, "n1"), Catch::StartsWith("this job is not waiting for a lost node"));
}

}  // namespace muster
