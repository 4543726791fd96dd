// SPDX-License-Identifier: Apache-2.0
// The first proposal of a job binds its first round, whichever node forms it
// (rendezvous/README.md).
#include "made_worlds.hpp"
#include "support/catch.hpp"

namespace muster {

using namespace std::chrono_literals;

namespace {

// Four nodes: n2 never received the first proposal; the others have accepted it.
SmallWorld proposed_world(NodeSettings made) {
  SmallWorld world(std::move(made));
  world.add("n0", true);
  world.add("n1");
  world.add("n2");
  world.cut(2);
  world.add("n3");
  return world;
}

}  // namespace

TEST_CASE("first round: a founder that is cut off forms none, but the nodes that accepted it do") {
  SmallWorld world = proposed_world(settings(1, 4));
  world.cut(0);
  world.heal(2);
  world.pass(120s);
  REQUIRE(ranks(world) == std::vector{-1, 0, 1, 2});
  world.heal(0);
  world.pass(10s);
  REQUIRE(ranks(world) == std::vector{0, 1, 2, 3});
}

TEST_CASE(
    "first round: a founder with a majority of its first proposal forms it, no other node does") {
  SmallWorld world = proposed_world(settings(1, 4));
  world.cut(3);
  world.heal(2);
  world.pass(120s);
  REQUIRE(ranks(world) == std::vector{0, 1, 2, -1});
}

TEST_CASE("first round: a founder continues if the nodes that accepted are proven dead") {
  SmallWorld world = proposed_world(settings(1, 4));
  world.heal(2);
  for (const std::size_t node : {1U, 2U, 3U}) {
    world.kill(node);
  }
  world.pass(2s);
  REQUIRE(ranks(world) == std::vector{0, -1, -1, -1});
}

TEST_CASE("first round: with allow_split_brain a founder continues alone") {
  NodeSettings made = settings(1, 4);
  made.allow_split_brain = true;
  SmallWorld world = proposed_world(made);
  world.cut(0);
  world.heal(2);
  world.pass(120s);
  CHECK(world.nodes[0].running);
}

// The founder is silent for this long, and then proven dead, while n1 records its proposal.
TEST_CASE("first round: a node continues if the founder dies within a lease of its last answer") {
  const Duration silent = GENERATE(Duration(1s), Duration(9s));
  NodeSettings made = settings(1, 3);
  made.records = true;
  SmallWorld world(made);
  world.add("n0", true);
  world.add("n1");
  world.nodes[1].records_at_once = false;
  world.pass(31s);
  REQUIRE(world.nodes[1].record);
  REQUIRE(world.nodes[1].record->accepted->id.number == 1);
  world.nodes[1].records_at_once = true;
  world.cut(0);
  world.pass(silent);
  world.heal(0);
  world.kill(0);
  world.pass(30s);
  CHECK(ranks(world) == std::vector{-1, silent < made.lease ? 0 : -1});
}

TEST_CASE(
    "first round: a node that missed the first proposal joins the next one, without a last call") {
  SmallWorld world = proposed_world(settings(1, 4));
  world.pass(1500ms);  // n2 does not accept, so it is abandoned
  CHECK(world.nodes[0].core->coordinator().started().number == 1);
  CHECK(ranks(world) == std::vector{-1, -1, -1, -1});
  world.heal(2);
  world.pass(3s);
  REQUIRE(ranks(world) == std::vector{0, 1, 2, 3});
}

}  // namespace muster
