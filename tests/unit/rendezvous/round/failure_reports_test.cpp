// SPDX-License-Identifier: Apache-2.0
// Reports of failed workers whose connection breaks: each failure arrives, and counts once.
#include "made_worlds.hpp"
#include "support/catch.hpp"

namespace muster {
using namespace std::chrono_literals;

namespace {

// What the node sends reaches no other node. Then its connections break, and it reconnects.
void lose_connection(SmallWorld& world, std::size_t node) {
  world.heal(node);
  world.reset(node);
  world.pass(100ms);
}

}  // namespace

TEST_CASE("failure reports: a report that is lost with its connection is sent again") {
  SmallWorld world = running_world(3, 1);
  world.cut(1);
  fail_worker(world, 1, 7);
  REQUIRE(world.nodes[0].ended.empty());
  lose_connection(world, 1);
  for (const SmallNode& node : world.nodes) {
    REQUIRE(node.close);
    CHECK(node.close->root_rank == 1);
    CHECK(node.close->exit_code == 7);
    CHECK(node.close->details == "details");
  }
}

TEST_CASE("failure reports: a report that is lost with its connection uses the restart budget") {
  SmallWorld world = running_world(3, 1, 1);
  world.cut(2);
  fail_worker(world, 2, 7);
  lose_connection(world, 2);
  REQUIRE(ranks(world) == std::vector{0, 1, 2});
  CHECK(world.nodes[1].running->round->restart_count == 1);
}

TEST_CASE("failure reports: the earliest failure is the root cause though its report was lost") {
  SmallWorld world = running_world(3, 1);
  world.pass(1s);
  world.cut(1);
  fail_worker(world, 1, 3);
  world.pass(10ms);
  fail_worker(world, 2, 1);
  REQUIRE(world.nodes[0].ended.empty());
  lose_connection(world, 1);
  REQUIRE(world.nodes[0].close);
  CHECK(world.nodes[0].close->root_rank == 1);
  CHECK(world.nodes[0].close->exit_code == 3);
  CHECK(world.nodes[0].close->others_count == 1);
}

TEST_CASE("failure reports: a failure that is reported again counts once") {
  SmallWorld world = running_world(3, 1);
  world.nodes[0].obedient = false;  // the verdict waits for it
  fail_worker(world, 2, 1);
  world.pass(10ms);
  Failed later;
  later.round = world.nodes[2].core->link().started();
  later.rank = 1;
  later.text = "exited with code 1";
  world.feed(1, WorkerFailedHere{later, world.now(), world.now(), false});
  world.reset(1);
  world.pass(2s);
  REQUIRE(world.nodes[0].close);
  CHECK(world.nodes[0].close->root_rank == 2);
  CHECK(world.nodes[0].close->others_count == 1);
}

TEST_CASE("failure reports: the failures of the last round do not end the next one") {
  SmallWorld world = running_world(3, 1, 2);
  fail_worker(world, 1, 7);
  REQUIRE(world.nodes[0].runs == 2);
  world.reset(1);
  world.pass(1s);
  CHECK(world.nodes[0].runs == 2);
  CHECK(world.nodes[0].running->round->restart_count == 1);
}

}  // namespace muster
