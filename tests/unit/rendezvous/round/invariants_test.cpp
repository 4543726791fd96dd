// SPDX-License-Identifier: Apache-2.0
// The checks in rendezvous/round/invariants.cpp detect an error that a test plants. Also, two
// counters that used to be wrong are now right.
#include "made_worlds.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <functional>

namespace muster {

using namespace std::chrono_literals;

struct Tamper {
  static RoundCore& round(SmallWorld& world) { return world.nodes[0].core->round_; }

  static LinkCore& link(SmallWorld& world) { return world.nodes[1].core->link_; }

  static std::string found(const std::function<void(SmallWorld&)>& plant) {
    SmallWorld world = running_world(3, 1);
    REQUIRE(world.nodes[0].core->check_invariants().empty());
    REQUIRE(world.nodes[1].core->check_invariants().empty());
    plant(world);
    return world.nodes[0].core->check_invariants() + world.nodes[1].core->check_invariants();
  }

  static void check_leader() {
    CHECK(found([](auto& w) { ++round(w).eligible_; }) ==
          "eligible nodes: counter is 1, actual count is 0");
    CHECK(found([](auto& w) { ++round(w).ready_; }) ==
          "ready nodes: counter is 1, actual count is 0");
    CHECK(found([](auto& w) { --round(w).running_; }) ==
          "running nodes: counter is 2, actual count is 3");
    CHECK(found([](auto& w) { ++round(w).stopping_; }) ==
          "stopping nodes: counter is 1, actual count is 0");
    CHECK(found([](auto& w) { ++round(w).expected_; }) ==
          "awaited members: counter is 4, actual count is 3");
    CHECK(found([](auto& w) { round(w).losses_[1001] = Loss{}; }) ==
          "node 'n1' is both attached and lost");
    CHECK(found([](auto& w) { round(w).links_[77] = 1001; }) ==
          "connection 77 belongs to a node that has a different one or none");
    CHECK(found([](auto& w) {
            round(w).dismissed_.insert(round(w).nodes_.at(1001).link);
          }).ends_with("belongs to a node but is dismissed"));
    CHECK(found([](auto& w) { round(w).nodes_.at(1001).state = FollowerState::finished; }) ==
          "node 'n1' has finished but is not listed");
    CHECK(found([](auto& w) {
            round(w).finished_ = {1000, 1001, 1002};
          }) == "runs although all members have finished");
    CHECK(found([](auto& w) { round(w).places_.erase(1001); }) ==
          "a member of the last round has no rank in it");
    CHECK(found([](auto& w) { round(w).accepted_.push_back(round(w).base_); }) ==
          "an accepted round is older than the last one");
    CHECK(found([](auto& w) { round(w).phase_ = Phase::closed; }) ==
          "phase closed and the Close message are inconsistent");
  }

  static void check_follower() {
    CHECK(found([](auto& w) { link(w).retry_at_ = w.now(); }) ==
          "retry time and pausing state are inconsistent");
    CHECK(found([](auto& w) { link(w).answer_by_ = w.now(); }) ==
          "answer deadline and joining state are inconsistent");
    CHECK(found([](auto& w) { link(w).link_.reset(); }) == "connection and state are inconsistent");
    CHECK(found([](auto& w) { link(w).lost_.id = 7; }) == "follows a coordinator that it has lost");
    CHECK(found([](auto& w) { link(w).work_ = LinkCore::Work::none; }) ==
          "has a lease but no running workers");
    CHECK(found([](auto& w) { link(w).accepted_ = link(w).started_; }) ==
          "accepted a round that is not later than the started one");
    CHECK(found([](auto& w) {
            w.nodes[1].core->strangers_.insert(*link(w).link_);
          }).ends_with("is a stranger's but also used otherwise"));
  }
};

TEST_CASE("invariants: an error planted in a leader is detected") {
  Tamper::check_leader();
}

TEST_CASE("invariants: an error planted in a follower is detected") {
  Tamper::check_follower();
}

// The store's host stays when its workers have finished, and reports this again on each new
// connection.
TEST_CASE("invariants: a node that reports twice that it has finished counts once") {
  SmallWorld world(settings(1, 3));
  world.add("b", true);
  world.add("a");
  world.add("c");
  REQUIRE(ranks(world) == std::vector{1, 0, 2});
  world.nodes[1].running.reset();
  world.feed(1, WorkersFinished{});
  world.reset(1);
  world.pass(1s);
  world.nodes[0].running.reset();
  world.feed(0, WorkersFinished{});
  world.pass(1s);
  CHECK(world.nodes[2].running);
  CHECK_FALSE(world.nodes[0].close);
  world.feed(2, WorkersFinished{});
  REQUIRE(world.nodes[0].close);
}

// Between the end of its lease and the next check.
TEST_CASE("invariants: a member that returns late is awaited once") {
  const auto member = [](NodeId id) {
    return NodeInfo{id, "n" + std::to_string(id), "10.0.0.1", 1, 1, "", -1};
  };
  NodeSettings made = settings(1, 3);
  Round round{RoundId{1, 1}, 1, 0, {member(1), member(2), member(3)}};
  const auto none = std::make_shared<const Round>();
  RoundCore core(made, member(1));
  NodeEffects out;
  TimePoint now{1h};
  core.lead(now, Lead{std::make_shared<const Round>(round), none, none, false, true}, out);
  Hello hello;
  hello.terms = made.terms;
  hello.started = round.id;
  for (const NodeId id : {NodeId{1}, NodeId{2}}) {
    hello.node = member(id);
    core.attach(now, id == 1 ? 0 : 2, hello, out);
  }
  CHECK(core.check_invariants().empty());
  core.link_ended(now, 2, out);
  core.attach(now + made.lease + 1ms, 4, hello, out);
  CHECK(core.check_invariants().empty());
}

}  // namespace muster
