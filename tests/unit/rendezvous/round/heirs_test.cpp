// SPDX-License-Identifier: Apache-2.0
// Agents that are restarted with the record of their predecessors (rendezvous/round/README.md).
#include "made_worlds.hpp"
#include "support/catch.hpp"

namespace muster {

using namespace std::chrono_literals;

namespace {

NodeSettings recording(int min, int max) {
  NodeSettings made = settings(min, max, 3);
  made.records = true;
  return made;
}

SmallWorld world_of(int count, int min) {
  SmallWorld world(recording(min, count));
  for (int i = 0; i < count; ++i) {
    world.add("n" + std::to_string(i), i == 0);
  }
  return world;
}

// The first of two nodes is without power for this long.
SmallWorld world_without_first(Duration down) {
  SmallWorld world = world_of(2, 2);
  REQUIRE(ranks(world) == std::vector{0, 1});
  world.cut(0);
  world.pass(down);
  world.heal(0);
  world.kill(0);
  return world;
}

}  // namespace

TEST_CASE("heirs: the first of two nodes rejoins at once if it restarts with its record") {
  for (const Duration down : {Duration(1s), Duration(8s), Duration(60s)}) {
    SmallWorld world = world_without_first(down);
    world.add("n0", true, world.nodes[0].record);
    world.pass(1s);
    CHECK(ranks(world) == std::vector{-1, 1, 0});
    CHECK(world.nodes[2].running->round->restart_count == 0);
  }
}

TEST_CASE("heirs: without a record the other node waits for the original one") {
  SmallWorld world = world_without_first(60s);
  world.add("n0", true);
  world.pass(100s);
  CHECK(ranks(world) == std::vector{-1, -1, -1});
}

TEST_CASE("heirs: if all nodes restart with their records, the job continues") {
  SmallWorld world = world_of(3, 3);
  fail_worker(world, 1, 7);
  REQUIRE(world.nodes[1].running->round->restart_count == 1);
  world.kill_all({0, 1, 2});
  for (std::size_t i = 0; i < 3; ++i) {
    world.add("n" + std::to_string(i), i == 0, world.nodes[i].record);
  }
  world.pass(2s);
  CHECK(ranks(world) == std::vector{-1, -1, -1, 0, 1, 2});
  CHECK(world.nodes[3].running->round->restart_count == 0);  // no launcher has used a restart
  CHECK(world.nodes[3].running->round->id.number == 3);
}

TEST_CASE("heirs: restarted nodes are no quorum without a node that they cannot reach") {
  SmallWorld world = world_of(3, 2);
  REQUIRE(ranks(world) == std::vector{0, 1, 2});
  world.cut(2);
  world.kill_all({0, 1});
  world.add("n0", true, world.nodes[0].record);
  world.add("n1", false, world.nodes[1].record);
  world.pass(100s);
  CHECK(ranks(world) == std::vector{-1, -1, -1, -1, -1});
  world.heal(2);
  world.pass(10s);
  CHECK(ranks(world) == std::vector{-1, -1, 2, 0, 1});
}

TEST_CASE("heirs: a majority with one original node continues without the silent one") {
  SmallWorld world = world_of(3, 2);
  REQUIRE(ranks(world) == std::vector{0, 1, 2});
  world.cut(2);
  world.kill(0);
  world.add("n0", true, world.nodes[0].record);
  world.pass(5s);
  CHECK(ranks(world) == std::vector{-1, -1, -1, -1});  // the silent one still has its lease
  world.pass(10s);
  CHECK(ranks(world) == std::vector{-1, 1, -1, 0});
}

TEST_CASE("heirs: accepts nothing before it is recorded") {
  SmallWorld world(recording(2, 2));
  world.add("n0", true);
  world.add("n1");
  world.pass(1s);
  REQUIRE(ranks(world) == std::vector{0, 1});
  world.nodes[1].records_at_once = false;
  world.kill(0);
  world.add("n0", true, world.nodes[0].record);
  world.pass(500ms);
  REQUIRE(ranks(world) == std::vector{-1, -1, -1});
  REQUIRE(world.nodes[1].record->accepted->id.number == 2);
  world.feed(1, RoundRecorded{world.nodes[1].record->accepted->id});
  CHECK(ranks(world) == std::vector{-1, 1, 0});
}

TEST_CASE("heirs: a node that cannot record a round leaves, because its older record is wrong") {
  SmallWorld world(recording(1, 2));
  world.add("n0", true);
  world.nodes[0].records_at_once = false;
  world.pass(31s);
  REQUIRE(world.nodes[0].record);
  world.feed(0, RecordFailed{world.nodes[0].record->accepted->id, Error{Errc::system, "disk"}});
  CHECK(world.nodes[0].ended == "failed: disk");
}

TEST_CASE("heirs: drops the record of another job") {
  SmallWorld old = world_of(2, 2);
  REQUIRE(ranks(old) == std::vector{0, 1});
  SmallWorld world(recording(1, 2), 2000);
  world.add("m0", true);
  world.pass(31s);
  REQUIRE(ranks(world) == std::vector{0});
  world.add("n1", false, old.nodes[1].record);
  world.pass(1s);
  CHECK(ranks(world) == std::vector{0, 1});
  CHECK(world.nodes[1].record->ids == std::vector{world.nodes[1].info.id});
}

TEST_CASE("heirs: a node with a record yields to the founder, which then learns the record") {
  SmallWorld world = world_of(2, 2);
  REQUIRE(ranks(world) == std::vector{0, 1});
  world.kill_all({0, 1});
  world.add("n1", false, world.nodes[1].record);
  world.pass(2s);
  REQUIRE(ranks(world) == std::vector{-1, -1, -1});
  world.add("n0", true, world.nodes[0].record);
  world.pass(2s);
  CHECK(ranks(world) == std::vector{-1, -1, 1, 0});
}

// n2 loses its leader before it has recorded the second round and can accept it.
TEST_CASE("heirs: a proposal that was recorded but not accepted does not bind a node") {
  SmallWorld world = world_of(3, 1);
  REQUIRE(ranks(world) == std::vector{0, 1, 2});
  world.nodes[2].records_at_once = false;
  fail_worker(world, 1, 7);
  REQUIRE(world.nodes[2].record->accepted->id.number == 2);
  world.cut(1);
  world.kill(0);
  CHECK(world.nodes[2].record->accepted->id.number == 0);
  CHECK(world.nodes[2].record->started->id.number == 1);
}

}  // namespace muster
