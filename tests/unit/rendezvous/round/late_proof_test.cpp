// SPDX-License-Identifier: Apache-2.0
// Proof that a node is dead shows nothing about what it did before: when it counts towards a
// quorum, and when it does not (rendezvous/README.md, "The rule").
#include "made_worlds.hpp"
#include "support/catch.hpp"

#include <string>

namespace muster {

using namespace std::chrono_literals;

namespace {

// n1 is cut off; n0 continues with a newcomer and dies.
SmallWorld world_with_heir() {
  SmallWorld world(settings(1, 3));
  world.add("n0", true);
  world.add("n1");
  world.pass(31s);
  REQUIRE(ranks(world) == std::vector{0, 1});
  world.cut(1);
  world.pass(20s);
  REQUIRE(ranks(world) == std::vector{0, -1});
  world.add("n2");
  world.pass(5s);
  REQUIRE(ranks(world) == std::vector{0, -1, 1});
  world.kill(0);
  world.pass(5s);
  REQUIRE(ranks(world) == std::vector{-1, -1, 0});
  return world;
}

// The first of two nodes is silent for this long, and then proven dead.
SmallWorld world_of_one(Duration silent, const NodeSettings& made) {
  SmallWorld world(made);
  world.add("n0", true);
  world.add("n1");
  REQUIRE(ranks(world) == std::vector{0, 1});
  world.cut(0);
  world.pass(silent);
  world.heal(0);
  world.kill(0);
  world.pass(30s);
  return world;
}

}  // namespace

TEST_CASE("late proof: no node continues if it does not know about newcomers") {
  SmallWorld world = world_with_heir();
  world.heal(1);
  world.pass(60s);
  CHECK(ranks(world) == std::vector{-1, -1, 0});
  const std::vector awaited{
      std::string("n0 (died while disconnected, and may have continued without us until then; "
                  "if it did not, run musterctl forget n0)")};
  CHECK(world.nodes[1].roll_call.awaited == awaited);
}

TEST_CASE("late proof: within a lease of the other node's last message a node continues") {
  SmallWorld world = world_of_one(6s, settings(1, 2));
  CHECK(ranks(world) == std::vector{-1, 0});
}

TEST_CASE("late proof: after a lease it waits, unless allow_split_brain is set") {
  NodeSettings made = settings(1, 2);
  CHECK(ranks(world_of_one(10s, made)) == std::vector{-1, -1});
  made.allow_split_brain = true;
  CHECK(world_of_one(10s, made).nodes[1].running);
}

TEST_CASE("late proof: if two nodes die at once, the other two continue") {
  SmallWorld world = running_world(4, 1);
  world.kill_all({0, 3});
  world.pass(3s);
  REQUIRE(ranks(world) == std::vector{-1, 0, 1, -1});
}

TEST_CASE("late proof: a node without workers counts as in contact, too") {
  SmallWorld world = running_world(2, 1, 3);
  world.nodes[0].obedient = false;
  fail_worker(world, 1, 1);
  world.pass(30s);  // n1 is ready all that time
  REQUIRE(ranks(world) == std::vector{0, -1});
  world.kill(0);
  world.pass(2s);
  REQUIRE(ranks(world) == std::vector{-1, 0});
}

TEST_CASE("late proof: a leader accepts it for a node that was bound to follow it") {
  SmallWorld world = running_world(3, 1);
  world.kill_all({1, 2});
  world.pass(3s);
  REQUIRE(ranks(world) == std::vector{0, -1, -1});
}

}  // namespace muster
