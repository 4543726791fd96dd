// SPDX-License-Identifier: Apache-2.0
// Wait times of ranks: each node reports them to its coordinator, which accepts them only from
// members of the running round, and only about their own ranks.
#include "made_worlds.hpp"
#include "support/catch.hpp"

#include <string>
#include <vector>

namespace muster {
namespace {

WaitedHere told(std::uint64_t number) {
  WaitedHere out;
  out.message.at = std::chrono::seconds(number);
  out.message.sums.push_back({.group = "world", .operations = number});
  return out;
}

}  // namespace

TEST_CASE("waits: the leader receives them from all nodes, including itself, with their ranks") {
  SmallWorld world = running_world(3, 2, 0);
  const RoundId round = world.nodes[0].running->round->id;
  for (std::size_t node = 0; node < 3; ++node) {
    world.feed(node, told(node + 7));
  }
  REQUIRE(world.nodes[0].waits.size() == 3);
  for (std::size_t node = 0; node < 3; ++node) {
    const HearWaits& heard = world.nodes[0].waits[node];
    CHECK(heard.node == world.nodes[node].info.name);
    CHECK(heard.ranks == RankSpan{static_cast<std::int32_t>(node), 1});
    CHECK(heard.said.round == round);
    CHECK(heard.said.sums == told(node + 7).message.sums);
    CHECK((node == 0 || world.nodes[node].waits.empty()));
  }
}

TEST_CASE("waits: a node that was cut off reports none, and resumes after its return") {
  SmallWorld world = running_world(3, 2, 0);
  world.cut(2);
  world.feed(2, told(1));
  CHECK(world.nodes[0].waits.empty());
  world.heal(2);
  world.feed(2, told(2));
  REQUIRE(world.nodes[0].waits.size() == 1);
  CHECK(world.nodes[0].waits[0].node == world.nodes[2].info.name);
}

}  // namespace muster
