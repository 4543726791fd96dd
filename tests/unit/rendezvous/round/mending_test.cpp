// SPDX-License-Identifier: Apache-2.0
// --restart=rank with several nodes: ranks are replaced while the round's other workers continue.
#include "made_worlds.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace muster {
namespace {

// Each node has one rank. All of them have the job's state.
SmallWorld elastic_world(int count, int restarts = 5, int min = 2) {
  SmallWorld world = running_world(count, min, restarts);
  for (std::size_t node = 0; node < world.nodes.size(); ++node) {
    world.feed(node, MendedHere{world.nodes[node].running->round->id.number});
  }
  return world;
}

LackingHere lacking(const SmallWorld& world, std::size_t node, std::uint64_t number = 1) {
  LackingHere out;
  out.message.number = number;
  out.message.ranks = {world.nodes[node].running->group_rank};
  out.message.cause.rank = world.nodes[node].running->group_rank;
  out.message.cause.text = "killed by SIGKILL";
  out.message.cause.run_time = std::chrono::hours(1);
  out.seen_at = world.now();
  return out;
}

void enter(SmallWorld& world, std::uint64_t epoch) {
  for (std::size_t node = 0; node < world.nodes.size(); ++node) {
    world.feed(node, MendedHere{epoch});
  }
}

// The reason why the node's last request was refused; "granted" if it was not.
std::string refusal(const SmallWorld& world, std::size_t node) {
  const auto& refused = world.nodes[node].refused_mends;
  return refused.empty() ? "granted" : refused.back().reason;
}

}  // namespace

TEST_CASE("mending: all nodes hear of a mend, and no worker is stopped") {
  SmallWorld world = elastic_world(3);
  world.feed(2, lacking(world, 2));
  for (std::size_t node = 0; node < 3; ++node) {
    REQUIRE(world.nodes[node].mends.size() == 1);
    const RunMend& mend = world.nodes[node].mends[0];
    CHECK(mend.mends == Mends{world.nodes[node].running->round->id.number + 1, 1});
    CHECK(mend.ranks == std::vector<std::int32_t>{2});
    CHECK(mend.cause == 2);
    CHECK(mend.number == (node == 2 ? 1 : 0));
    CHECK(mend.reason == "rank 2 on 'n2' killed by SIGKILL; replacing rank 2: restart 1 of 5");
    CHECK(world.nodes[node].runs == 1);
    CHECK(world.nodes[node].running);
  }
}

TEST_CASE("mending: ranks of two nodes are replaced by two mends") {
  SmallWorld world = elastic_world(3);
  const std::uint64_t epoch = world.nodes[0].running->round->id.number;
  world.feed(1, lacking(world, 1));
  world.feed(2, lacking(world, 2));
  CHECK(world.nodes[0].mends.back().mends.epoch == epoch + 2);
  CHECK(world.nodes[1].mends[0].number == 1);
  CHECK(world.nodes[1].mends[1].number == 0);
  world.feed(0, lacking(world, 0));
  CHECK(refusal(world, 0) == "no remaining rank has the job's state");
}

TEST_CASE("mending: a replaced rank has the state once it works in the last epoch") {
  SmallWorld world = elastic_world(2);
  const std::uint64_t epoch = world.nodes[0].running->round->id.number;
  world.feed(1, lacking(world, 1));
  enter(world, epoch);  // these messages were sent before the mend
  enter(world, epoch + 1);
  world.feed(0, lacking(world, 0));
  CHECK(refusal(world, 0) == "granted");
}

TEST_CASE("mending: refused before all ranks have entered the training function") {
  SmallWorld world = running_world(2, 2, 5);
  world.feed(0, MendedHere{world.nodes[0].running->round->id.number});
  world.feed(0, lacking(world, 0));
  CHECK(refusal(world, 0) == "not all ranks on 'n1' have entered muster.elastic.run");
  CHECK(world.nodes[1].mends.empty());
  CHECK(world.nodes[0].running);  // its agent now reports the failure
}

TEST_CASE("mending: refused after a node has finished") {
  SmallWorld world = elastic_world(3);
  world.feed(1, WorkersFinished{});
  world.feed(2, lacking(world, 2));
  CHECK(refusal(world, 2) == "node 'n1' has finished");
}

TEST_CASE("mending: refused without a reason if no restart is left") {
  SmallWorld world = elastic_world(2, 1);
  world.feed(1, lacking(world, 1));
  enter(world, world.nodes[0].mends.back().mends.epoch);
  world.feed(1, lacking(world, 1, 2));
  CHECK(refusal(world, 1).empty());
  fail_worker(world, 1, 7);
  world.pass(std::chrono::seconds(2));
  REQUIRE(world.nodes[0].close);
  CHECK(world.nodes[0].close->exit_code == 7);
  CHECK(world.nodes[0].close->reason == "all 1 restarts are used up");
}

TEST_CASE("mending: refused if mends do not help") {
  SmallWorld world = elastic_world(2, 100);
  for (std::uint64_t number = 1; number <= 4; ++number) {
    world.feed(1, lacking(world, 1, number));
    enter(world, world.nodes[0].mends.back().mends.epoch);
  }
  CHECK(refusal(world, 1) == "no step was completed between the last 4 failures");
}

TEST_CASE("mending: refused if the request names a rank of another node") {
  SmallWorld world = elastic_world(2);
  LackingHere request = lacking(world, 1);
  request.message.ranks = {0};
  world.feed(1, request);
  CHECK(refusal(world, 1) == "the request names ranks of another node");
}

TEST_CASE("mending: an order that was lost with its connection is repeated and counted once") {
  SmallWorld world = elastic_world(3);
  world.deafen(1);
  world.feed(1, lacking(world, 1));
  REQUIRE(world.nodes[0].mends.size() == 1);
  CHECK(world.nodes[1].mends.empty());
  world.feed(2, lacking(world, 2));  // so the last order does not answer node 1
  world.heal(1);
  world.reset(1);
  world.pass(std::chrono::seconds(1));
  REQUIRE(world.nodes[1].mends.size() == 2);
  CHECK(world.nodes[1].mends[0].number == 0);
  CHECK(world.nodes[1].mends[1].number == 1);
  CHECK(world.nodes[1].mends[1].mends == Mends{world.nodes[0].mends[1].mends.epoch, 2});
}

TEST_CASE("mending: a node that finishes after a mend repeats that it took part") {
  SmallWorld world = elastic_world(3);
  world.feed(1, lacking(world, 1));
  const std::uint64_t epoch = world.nodes[0].mends.back().mends.epoch;
  world.cut(2);
  world.feed(2, MendedHere{epoch});
  world.feed(2, WorkersFinished{});
  world.heal(2);
  world.reset(2);
  world.pass(std::chrono::seconds(1));
  CHECK(world.nodes[0].running);
  CHECK(world.nodes[0].runs == 1);
}

TEST_CASE("mending: a request that is given up before it is granted counts once") {
  SmallWorld world = elastic_world(2, 1);
  world.deafen(1);
  world.feed(1, lacking(world, 1));
  fail_worker(world, 1, 7);
  world.heal(1);
  world.reset(1);
  world.pass(std::chrono::seconds(30));
  REQUIRE(world.nodes[1].running);
  CHECK(world.nodes[1].runs == 2);
  CHECK(world.nodes[1].running->round->restart_count == 1);
}

TEST_CASE("mending: a new leader knows the restarts that were used") {
  SmallWorld world = elastic_world(3, 2);
  for (std::uint64_t number = 1; number <= 2; ++number) {
    LackingHere request = lacking(world, 2, number);
    request.message.tells_step = true;
    request.message.step = number;
    world.feed(2, request);
    enter(world, world.nodes[0].mends.back().mends.epoch);
  }
  world.kill(0);
  world.pass(std::chrono::seconds(60));
  REQUIRE(world.nodes[2].running);
  enter(world, world.nodes[2].running->round->id.number);
  world.feed(2, lacking(world, 2));
  CHECK(refusal(world, 2).empty());
}

TEST_CASE("mending: a node that was disconnected receives the mend when it is back") {
  SmallWorld world = elastic_world(3);
  world.cut(2);
  world.feed(1, lacking(world, 1));
  CHECK(world.nodes[2].mends.empty());
  world.heal(2);
  world.reset(2);
  world.pass(std::chrono::seconds(1));
  REQUIRE(world.nodes[2].mends.size() == 1);
  CHECK(world.nodes[2].mends[0].mends == world.nodes[0].mends[0].mends);
  CHECK(world.nodes[2].runs == 1);
}

TEST_CASE("mending: a node that cannot take part makes all workers restart, at no further cost") {
  SmallWorld world = elastic_world(2);
  world.feed(1, lacking(world, 1));
  LackingHere cannot;
  cannot.message.obstacle = "rank 0 has finished";
  world.feed(0, cannot);
  world.pass(std::chrono::seconds(1));
  REQUIRE(world.nodes[1].running);
  CHECK(world.nodes[1].runs == 2);
  CHECK(world.nodes[1].running->round->restart_count == 1);
  CHECK(world.nodes[1].running->round->id.number > world.nodes[1].mends.back().mends.epoch);
  enter(world, world.nodes[1].running->round->id.number);
  world.feed(1, lacking(world, 1));  // numbers start again in each round
  CHECK(world.nodes[1].mends.back().mends.restarts == 2);
}

TEST_CASE("mending: the round of a new leader is later than the mends of the old one") {
  SmallWorld world = elastic_world(3);
  world.feed(1, lacking(world, 1));
  const std::uint64_t epoch = world.nodes[2].mends.back().mends.epoch;
  world.kill(0);
  world.pass(std::chrono::seconds(60));
  REQUIRE(world.nodes[2].running);
  CHECK(world.nodes[2].running->round->id.coordinator != world.nodes[0].info.id);
  CHECK(world.nodes[2].running->round->id.number > epoch);
}

TEST_CASE("mending: a new leader knows the restarts of all workers since the last mend") {
  SmallWorld world = elastic_world(3, 2);
  world.feed(2, lacking(world, 2));
  enter(world, world.nodes[0].mends.back().mends.epoch);
  fail_worker(world, 1, 7);
  world.pass(std::chrono::seconds(1));
  REQUIRE(world.nodes[2].runs == 2);
  world.kill(0);
  world.pass(std::chrono::seconds(60));
  REQUIRE(world.nodes[2].runs == 3);
  enter(world, world.nodes[2].running->round->id.number);
  world.feed(2, lacking(world, 2));
  CHECK(refusal(world, 2).empty());
}

TEST_CASE("mending: a node outside of the round cannot use up epochs or restarts") {
  SmallWorld world = elastic_world(2);
  Hello hello;
  hello.terms = settings(2, 2, 5).terms;
  hello.node.id = 99;
  hello.node.name = "spare";
  hello.mends = {UINT64_MAX, INT32_MAX};
  world.feed(0, LinkAccepted{1000, "10.0.0.9"});
  world.feed(0, MessageReceived{1000, std::make_shared<const RoundMessage>(hello)});
  world.feed(1, lacking(world, 1));
  REQUIRE(world.nodes[0].mends.size() == 1);
  CHECK(world.nodes[0].mends[0].mends == Mends{world.nodes[0].running->round->id.number + 1, 1});
}

TEST_CASE("mending: a round is later than the mends of its members in other rounds") {
  SmallWorld world = elastic_world(3);
  world.cut(0);  // the leader
  for (std::uint64_t number = 1; number <= 3; ++number) {
    world.feed(0, lacking(world, 0, number));
  }
  const std::uint64_t epoch = world.nodes[0].mends.back().mends.epoch;
  world.pass(std::chrono::seconds(60));
  REQUIRE(world.nodes[1].running->round->id.number < epoch);
  world.heal(0);
  world.pass(std::chrono::seconds(60));
  REQUIRE(world.nodes[0].running);
  CHECK(world.nodes[0].running->round->id == world.nodes[1].running->round->id);
  CHECK(world.nodes[0].running->round->id.number > epoch);
}

}  // namespace muster
