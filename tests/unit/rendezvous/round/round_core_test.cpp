// SPDX-License-Identifier: Apache-2.0
// The coordinator alone, in situations that small worlds do not produce: nodes that come from other
// rounds.
#include "made_worlds.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace muster {

using namespace std::chrono_literals;

namespace {

NodeInfo member(NodeId id) {
  return NodeInfo{id, "n" + std::to_string(id), "10.0.0.9", 9, 1, "", -1};
}

RoundPtr round_of(RoundId id, const std::vector<NodeId>& members) {
  auto round = std::make_shared<Round>();
  round->id = id;
  for (const NodeId each : members) {
    round->members.push_back(member(each));
  }
  return round;
}

// Node 1 leads. The link of each other node has the node's id; its own link is 0.
struct Leader {
  NodeSettings made;
  RoundCore core;
  NodeEffects out;
  TimePoint now{1h};
  std::map<NodeId, std::uint64_t> beats;

  Leader(const NodeSettings& chosen, const Lead& lead) : made(chosen), core(chosen, member(1)) {
    core.lead(now, lead, out);
  }

  static LinkId link_of(NodeId id) { return id == 1 ? 0 : 2 * id; }

  void attach(NodeId id, RoundId started, RoundId accepted) {
    Hello hello;
    hello.terms = made.terms;
    hello.node = member(id);
    hello.started = started;
    hello.accepted = accepted;
    hello.waited = true;
    core.attach(now, link_of(id), hello, out);
  }

  void hear(NodeId id, const RoundMessage& message) {
    core.receive(now, link_of(id), message, out);
  }

  // It has received our answer to its previous beat.
  void beat(NodeId id) {
    const std::uint64_t heard = beats[id]++;
    hear(id, Beat{beats[id], heard});
  }

  // Lets time pass while all of these nodes send beats.
  void pass(Duration duration, const std::set<NodeId>& nodes) {
    const TimePoint until = now + duration;
    while (now < until) {
      now += std::min<Duration>(until - now, 500ms);
      for (const NodeId id : nodes) {
        beat(id);
      }
      core.tick(now, out);
    }
  }

  // Whether the last Beat of the node was granted.
  [[nodiscard]] bool granted(NodeId id) const {
    bool found = false;
    for (const NodeEffect& effect : out) {
      const auto* said = std::get_if<SendMessage>(&effect);
      const auto* pong = said == nullptr ? nullptr : std::get_if<Pong>(said->message.get());
      found = pong != nullptr && said->link == link_of(id) ? pong->granted : found;
    }
    return found;
  }
};

constexpr RoundId kFirst{1, 2};
constexpr RoundId kSecond{2, 2};
constexpr RoundId kLater{5, 3};

Lead successor(RoundPtr started, RoundPtr accepted) {
  return Lead{started, std::move(accepted), started, false, true, TimePoint::min(), {}};
}

Hello claim_of_member_3() {
  Hello claim;
  claim.purpose = Purpose::ask;
  claim.node = member(3);
  claim.started = kFirst;
  claim.coordinates = true;
  return claim;
}

}  // namespace

// Nodes 1 and 2 were in the round that ran, node 3 in one that was proposed later; there is room
// for two.
TEST_CASE("round core: a node that was granted a beat is not left out for a lease") {
  Leader leader(settings(1, 2), successor(round_of(kFirst, {1, 2}), round_of(kSecond, {1, 3})));
  leader.attach(1, kFirst, kSecond);
  leader.attach(2, kFirst, {});
  leader.attach(3, {}, kSecond);
  const std::set<NodeId> all{1, 2, 3};
  leader.pass(2s, all);
  REQUIRE(leader.granted(3));
  for (const NodeId id : all) {
    leader.hear(id, Ready{false});
  }
  CHECK(leader.core.phase() == Phase::gathering);
  leader.pass(leader.made.lease - 1ms, all);
  CHECK(leader.core.phase() == Phase::gathering);
  leader.pass(1ms, all);
  CHECK(leader.core.phase() == Phase::proposing);
}

TEST_CASE("round core: a node without workers that can be left out is granted nothing") {
  Leader leader(settings(1, 2), successor(round_of(kFirst, {1, 2}), round_of(kSecond, {1, 3})));
  leader.attach(1, kFirst, kSecond);
  leader.attach(2, kFirst, {});
  leader.attach(3, {}, kSecond);
  leader.hear(3, Ready{false});
  leader.pass(2s, {1, 2, 3});
  CHECK(leader.granted(2));
  CHECK_FALSE(leader.granted(3));
}

// Node 2 has been silent for a lease and returns while the round without it is proposed.
TEST_CASE(
    "round core: a node that returns while a round without it is proposed is granted nothing") {
  Leader leader(settings(1, 2), successor(round_of(kFirst, {1, 2}), round_of({}, {})));
  leader.attach(1, kFirst, {});
  leader.hear(1, Ready{false});
  leader.pass(leader.made.lease + 1s, {1});
  REQUIRE(leader.core.phase() == Phase::proposing);
  leader.attach(2, kFirst, {});
  leader.pass(2s, {1, 2});
  CHECK_FALSE(leader.granted(2));
  REQUIRE(leader.core.phase() == Phase::proposing);
  leader.hear(1, Accept{RoundId{2, 1}, "10.0.0.1", 7});
  CHECK(leader.core.phase() == Phase::running);
}

// Two of three members. The second names a round that the leader does not know of.
TEST_CASE("round core: a node with a later round counts once the leader has learned that round") {
  for (const bool knows_more : {false, true}) {
    Leader leader(settings(1, 3), successor(round_of(kFirst, {3, 2, 1}), round_of({}, {})));
    leader.attach(1, kFirst, {});
    leader.attach(2, knows_more ? kLater : kFirst, {});
    leader.pass(2s, {1, 2});
    CHECK(leader.granted(1) == !knows_more);
    if (knows_more) {
      const RoundPtr later = round_of(kLater, {2, 1});
      leader.hear(2, Rounds{later, round_of({}, {}), later});
      leader.pass(2s, {1, 2});
      CHECK(leader.granted(1));
    }
  }
}

// Node 3 was in the first round only and is silent. Node 2 has run the second one, of which the
// leader knows only the proposal.
TEST_CASE("round core: a proposal that a node has run replaces the round before it") {
  Leader leader(settings(1, 3), successor(round_of(kFirst, {3, 4, 1}), round_of(kSecond, {1, 2})));
  leader.attach(1, kFirst, kSecond);
  leader.attach(2, kSecond, {});
  REQUIRE(std::ranges::any_of(leader.out, [](const NodeEffect& effect) {
    const auto* said = std::get_if<SendMessage>(&effect);
    return said != nullptr && std::holds_alternative<ShowRounds>(*said->message);
  }));
  const RoundPtr second = round_of(kSecond, {1, 2});
  leader.hear(2, Rounds{second, round_of({}, {}), second});
  CHECK(leader.core.started() == kSecond);
  leader.hear(1, Ready{false});
  leader.hear(2, Ready{false});
  leader.pass(2s, {1, 2});
  CHECK(leader.core.phase() == Phase::proposing);
}

// Node 9 has proposed a round of three and is silent. The leader abandons its own proposal because
// node 3 leaves instead of accepting it. Later node 2 leaves as well.
TEST_CASE("round core: a proposal replaces an earlier one if a quorum of that one accepted it") {
  const bool has_quorum = GENERATE(true, false);
  const std::vector<NodeId> old =
      has_quorum ? std::vector<NodeId>{9, 2, 4} : std::vector<NodeId>{9, 2, 3};
  const RoundPtr second = round_of(RoundId{2, 9}, old);
  Leader leader(settings(1, 4), successor(round_of(kFirst, {1, 2, 3}), round_of({}, {})));
  const std::set<NodeId> all{1, 2, 3, 4};
  for (const NodeId id : all) {
    leader.attach(id, kFirst, {});
  }
  leader.hear(2, Rounds{round_of(kFirst, {1, 2, 3}), second, round_of(kFirst, {1, 2, 3})});
  leader.pass(leader.made.lease + 1s, all);  // node 9 has lost its lease
  for (const NodeId id : {4U, 1U, 2U, 3U}) {
    leader.hear(id, Ready{false});
  }
  REQUIRE(leader.core.phase() == Phase::proposing);
  const RoundId proposed{3, 1};
  for (const NodeId id : {1U, 2U, 4U}) {
    leader.hear(id, Accept{proposed, "10.0.0.1", 7});
  }
  leader.hear(3, Leave{"no port", true});
  leader.hear(2, Leave{"no port", true});
  CHECK(leader.core.phase() == (has_quorum ? Phase::proposing : Phase::gathering));
}

// Node 2 is new. Node 3 has accepted the first proposal of another founder, and reports that while
// this founder's proposal is on its way.
TEST_CASE("round core: a founder that learns of another first proposal abandons its own") {
  for (const NodeId other : {0U, 9U}) {  // an id before or after that of our proposal
    const RoundId elsewhere{1, other};
    const RoundPtr none = round_of({}, {});
    Leader leader(settings(2, 2), Lead{none, none, none, true, true, TimePoint::min(), {}});
    leader.attach(1, {}, {});
    leader.hear(1, Ready{false});
    leader.attach(3, {}, elsewhere);
    leader.attach(2, {}, {});
    leader.hear(2, Ready{false});
    leader.beat(1);
    leader.beat(2);
    REQUIRE(leader.core.phase() == Phase::proposing);
    leader.hear(3, Rounds{none, round_of(elsewhere, {3, 4}), none});
    CHECK(leader.core.phase() == Phase::gathering);
    CHECK(leader.core.started() == std::min(elsewhere, RoundId{1, 1}));
    CHECK(leader.core.check_invariants().empty());
  }
}

// Its answer to a query would end the wait earlier; here it cannot be reached.
TEST_CASE("round core: a founder waits for a leader that claims the job, for a limited time") {
  const RoundPtr none = round_of({}, {});
  NodeSettings made = settings(2, 3);
  made.last_call = 1s;
  Leader leader(made, Lead{none, none, none, true, true, TimePoint::min(), {}});
  leader.attach(1, {}, {});
  leader.hear(1, Ready{false});
  const Hello claim = claim_of_member_3();
  leader.core.hear_claim(leader.now, claim, leader.out);
  leader.attach(2, {}, {});
  leader.hear(2, Ready{false});
  const bool goes_on = GENERATE(false, true);
  const TimePoint first = leader.now;
  const TimePoint until = first + (goes_on ? kClaimsHoldMost : kClaimHolds);
  while (leader.now < until) {
    CHECK(leader.core.phase() == Phase::gathering);
    if (goes_on) {
      leader.core.hear_claim(leader.now, claim, leader.out);
    }
    leader.pass(1s, {1, 2});
  }
  CHECK(leader.core.phase() == Phase::proposing);
}

TEST_CASE("round core: a claim delays a founder with all nodes until its address answers") {
  const RoundPtr none = round_of({}, {});
  Leader leader(settings(2, 2), Lead{none, none, none, true, true, TimePoint::min(), {}});
  leader.attach(1, {}, {});
  leader.hear(1, Ready{false});
  const Hello claim = claim_of_member_3();
  leader.core.hear_claim(leader.now, claim, leader.out);
  const LinkId asked = std::get<OpenLink>(leader.out.back()).link;
  leader.attach(2, {}, {});
  leader.hear(2, Ready{false});
  leader.pass(500ms, {1, 2});
  REQUIRE(leader.core.phase() == Phase::gathering);
  SECTION("it follows another node") {
    leader.core.question_answered(
        leader.now, asked, Claim{member(3), member(2), RoundId{}, false}, leader.out);
    CHECK(leader.core.phase() == Phase::proposing);
  }
  SECTION("it is dead") {
    leader.core.question_ended(leader.now, asked, LinkEnd::refused, leader.out);
    CHECK(leader.core.phase() == Phase::proposing);
  }
  SECTION("it joins") {
    leader.attach(3, {}, {});
    leader.core.tick(leader.now, leader.out);
    CHECK(leader.core.phase() == Phase::proposing);
  }
  SECTION("it leads") {
    leader.core.question_answered(
        leader.now, asked, Claim{member(3), member(3), kFirst, true}, leader.out);
    CHECK(leader.core.phase() == Phase::gathering);
    CHECK(leader.core.take_stronger()->id == 3);
  }
  SECTION("it cannot be reached") {
    leader.core.question_ended(leader.now, asked, LinkEnd::unreachable, leader.out);
    leader.pass(kClaimHolds - 1s, {1, 2});
    CHECK(leader.core.phase() == Phase::gathering);
    leader.pass(1s, {1, 2});
    CHECK(leader.core.phase() == Phase::proposing);
  }
}

TEST_CASE("round core: a founder waits for an endpoint that never answers, and does nothing else") {
  NodeSettings made = settings(2, 2);
  made.endpoints.push_back(Endpoint{"silent", 1});
  const RoundPtr none = round_of({}, {});
  Leader leader(made, Lead{none, none, none, true, true, TimePoint::min(), {}});
  leader.attach(1, {}, {});
  const TimePoint end = leader.now + 20s;
  int ticks = 0;
  while (leader.now < end && ++ticks < 1000) {
    leader.now = std::max(leader.now, *leader.core.next_deadline());
    leader.core.tick(leader.now, leader.out);
  }
  CHECK(leader.now >= end);
}

}  // namespace muster
