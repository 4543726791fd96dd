// SPDX-License-Identifier: Apache-2.0
// What a process on the network that is not a member of the job cannot do, although there is no key
// yet.
#include "made_worlds.hpp"
#include "support/catch.hpp"

#include <vector>

namespace muster {

using namespace std::chrono_literals;

namespace {

constexpr LinkId kStranger = 9000;

NodeInfo member(NodeId id) {
  return NodeInfo{id, "n" + std::to_string(id), "10.0.0.9", 9, 1, "", -1};
}

Hello hello_of(NodeId id) {
  Hello hello;
  hello.terms = settings(1, 3).terms;
  hello.node = member(id);
  hello.waited = true;
  return hello;
}

void say(SmallWorld& world, LinkId link, RoundMessage message) {
  world.feed(0, MessageReceived{link, std::make_shared<const RoundMessage>(std::move(message))});
}

void connect(SmallWorld& world, LinkId link, const std::string& from, const Hello& hello) {
  world.feed(0, LinkAccepted{link, from});
  say(world, link, hello);
}

// From a node that claims to have run a later round than any node here.
Hello claim_of(NodeId id) {
  Hello claim = hello_of(id);
  claim.purpose = Purpose::ask;
  claim.coordinates = true;
  claim.has_quorum = true;
  claim.started = RoundId{9, 77};
  return claim;
}

// A node that leads and waits for others, and the connection on which it verifies a claim to lead.
struct WaitingLeader {
  NodeCore core{settings(2, 3), member(1), 0};
  TimePoint now{1h};
  NodeEffects out;

  WaitingLeader() {
    step(ListenerKnown{"10.0.0.1", 2});
    step(NodeStarted{true});
    step(LinkAccepted{2, "10.9.9.9"});
  }

  void step(const NodeEvent& event) {
    out.clear();
    core.step(now, event, out);
  }

  void hear(LinkId link, RoundMessage message) {
    step(MessageReceived{link, std::make_shared<const RoundMessage>(std::move(message))});
  }

  [[nodiscard]] const OpenLink* opened() const {
    for (const NodeEffect& effect : out) {
      if (const auto* open = std::get_if<OpenLink>(&effect)) {
        return open;
      }
    }
    return nullptr;
  }
};

Claim answer_of(NodeId id) {
  return Claim{member(id), member(id), RoundId{9, 77}, true};
}

bool runs_undisturbed(SmallWorld& world) {
  world.pass(20s);
  return ranks(world) == std::vector{0, 1, 2} && world.nodes[0].runs == 1;
}

RoundPtr made_up_round() {
  return std::make_shared<const Round>(Round{RoundId{9, 77}, 1, 0, {member(77)}});
}

}  // namespace

TEST_CASE("strangers: no node joins with the leader's own id") {
  SmallWorld world = running_world(3, 1);
  connect(world, kStranger, "10.9.9.9", hello_of(1000));
  CHECK_FALSE(world.nodes[0].core->coordinator().knows(kStranger));
  CHECK(runs_undisturbed(world));
}

TEST_CASE("strangers: no node replaces a live member from another address") {
  SmallWorld world = running_world(3, 1);
  Hello hello = hello_of(1001);
  hello.started = world.nodes[1].running->round->id;
  world.cut(1);  // so that it does not return before we check
  connect(world, kStranger, "10.9.9.9", hello);
  CHECK_FALSE(world.nodes[0].core->coordinator().knows(kStranger));
  world.heal(1);
  CHECK(runs_undisturbed(world));
}

TEST_CASE("strangers: a live member may return from another address of its host") {
  SmallWorld world = running_world(3, 1);
  Hello hello = hello_of(1001);
  hello.started = world.nodes[1].running->round->id;
  world.cut(1);
  connect(world, kStranger, "fd00::2", hello);
  CHECK(world.nodes[0].core->coordinator().knows(kStranger));
}

TEST_CASE("strangers: a running quorum does not accept a later round from a node outside") {
  SmallWorld world = running_world(3, 1);
  Hello hello = hello_of(77);
  hello.started = made_up_round()->id;
  connect(world, kStranger, "10.9.9.9", hello);
  const auto none = std::make_shared<const Round>();
  say(world, kStranger, Rounds{made_up_round(), none, none});
  CHECK(runs_undisturbed(world));
}

TEST_CASE("strangers: accepts rounds only from nodes that were members of them") {
  SmallWorld world(settings(1, 3));
  world.add("n0", true);
  connect(world, kStranger, "10.9.9.9", hello_of(78));
  const auto none = std::make_shared<const Round>();
  say(world, kStranger, Rounds{made_up_round(), none, none});
  CHECK(world.nodes[0].core->coordinator().started().number == 0);
}

TEST_CASE("strangers: a single claim to lead does not end a job that runs with a quorum") {
  SmallWorld world = running_world(3, 1);
  connect(world, kStranger, "10.9.9.9", claim_of(77));
  CHECK(world.nodes[0].core->coordinator().leads());
  CHECK(runs_undisturbed(world));
}

TEST_CASE("strangers: a single claim to lead does not depose a leader that waits") {
  SmallWorld world(settings(2, 2));
  world.add("n0", true);
  connect(world, kStranger, "10.9.9.9", claim_of(77));
  CHECK(world.nodes[0].core->coordinator().leads());
  world.add("n1");
  CHECK(ranks(world) == std::vector{-1, -1});  // the claim delays the first round
  world.pass(kClaimHolds);
  CHECK(ranks(world) == std::vector{0, 1});
}

TEST_CASE("strangers: a claim to lead is accepted if the node at its address confirms it") {
  WaitingLeader leader;
  leader.hear(2, claim_of(77));
  REQUIRE(leader.opened() != nullptr);
  const OpenLink asked = *leader.opened();
  CHECK(asked.host == member(77).address);
  CHECK(asked.port == member(77).port);
  leader.step(LinkOpened{asked.link});
  CHECK(leader.core.coordinator().leads());
  leader.hear(asked.link, answer_of(77));
  CHECK_FALSE(leader.core.coordinator().leads());
}

TEST_CASE("strangers: a claim to lead is rejected if the answer does not confirm it") {
  const Claim follows_another{member(77), member(78), RoundId{9, 77}, false};
  const Claim leads_less{member(77), member(77), RoundId{}, false};
  for (const Claim& answer : {follows_another, leads_less}) {
    WaitingLeader leader;
    leader.hear(2, claim_of(77));
    REQUIRE(leader.opened() != nullptr);
    const LinkId asked = leader.opened()->link;
    leader.step(LinkOpened{asked});
    leader.hear(asked, answer);
    CHECK(leader.core.coordinator().leads());
  }
}

TEST_CASE("strangers: a claim in a known node's name is verified at that node's address") {
  SmallWorld world(settings(3, 3));
  world.add("n0", true);
  world.add("n1");
  world.add("n2");
  world.kill(2);  // its address refuses connections
  const auto link_of_n1 = [&] {
    return world.nodes[0].core->coordinator().live_link_of(world.now(), 1001);
  };
  const auto before = link_of_n1();
  REQUIRE(before);
  Hello claim = claim_of(1001);
  claim.node.address = world.nodes[2].info.address;
  claim.node.port = world.nodes[2].info.port;
  connect(world, kStranger, "10.9.9.9", claim);
  CHECK(link_of_n1() == before);
}

TEST_CASE("strangers: a Start without a round has no effect") {
  NodeCore core(settings(2, 2), member(1), 0);
  const TimePoint now{};
  NodeEffects out;
  core.step(now, NodeStarted{false}, out);
  core.step(now, LinkOpened{1}, out);
  const auto hears = [&](RoundMessage message) {
    core.step(now, MessageReceived{1, std::make_shared<const RoundMessage>(message)}, out);
  };
  hears(Welcome{member(2), 9s});
  out.clear();
  hears(Start{});
  CHECK(out.empty());
}

// n1 leads, and all nodes are in its first round. The link of a node has the node's number, and
// that of n1 is 0.
struct RunningRound {
  explicit RunningRound(NodeId nodes)
      : made(settings(1, static_cast<int>(nodes))), core(made, member(1)) {
    const auto none = std::make_shared<const Round>();
    core.lead(now, Lead{none, none, none, true, true}, out);
    for (NodeId id = 1; id <= nodes; ++id) {
      attach(id, link_of(id), {});
      core.receive(now, link_of(id), Ready{false}, out);
    }
    for (NodeId id = 1; id <= nodes; ++id) {
      core.receive(now, link_of(id), Accept{RoundId{1, 1}, "10.0.0.1", 7}, out);
    }
    REQUIRE(core.phase() == Phase::running);
  }

  static LinkId link_of(NodeId id) { return id == 1 ? 0 : id; }

  void attach(NodeId id, LinkId link, RoundId started) {
    Hello hello = hello_of(id);
    hello.terms = made.terms;
    hello.started = started;
    core.attach(now, link, hello, out);
    core.receive(now, link, Beat{1, 0}, out);
  }

  void stop() {
    core.receive(now, 0, Ready{true}, out);
    REQUIRE(core.phase() == Phase::stopping);
  }

  NodeSettings made;
  RoundCore core;
  NodeEffects out;
  TimePoint now{1h};
};

// n2 is alive and sends beats, but never answers the call to regroup.
TEST_CASE("strangers: a stop that one node does not answer has a deadline") {
  RunningRound round(2);
  round.stop();
  for (int i = 0; i < 60; ++i) {
    round.now += 500ms;
    round.core.receive(round.now, 2, Beat{static_cast<std::uint64_t>(i) + 2, 1}, round.out);
    round.core.tick(round.now, round.out);
  }
  CHECK(round.core.phase() != Phase::stopping);
}

// n3 does not answer the call to regroup. n2 returns just before its time is over.
TEST_CASE("strangers: a node that returns late in a stop has as long to answer as any other") {
  RunningRound round(3);
  round.core.link_ended(round.now, 2, round.out);
  round.stop();
  round.now += round.made.lease - 1ms;
  round.core.receive(round.now, 3, Beat{2, 1}, round.out);
  round.attach(2, 12, RoundId{1, 1});
  round.out.clear();
  round.now += 2ms;
  round.core.tick(round.now, round.out);
  std::vector<LinkId> closed;
  for (const NodeEffect& each : round.out) {
    if (const auto* close = std::get_if<CloseLink>(&each)) {
      closed.push_back(close->link);
    }
  }
  CHECK(closed == std::vector<LinkId>{3});
}

}  // namespace muster
