// SPDX-License-Identifier: Apache-2.0
// Proposals that a node has recorded but not accepted when it loses its leader: which ones it
// withdraws (LinkCore::may_withdraw).
#include "made_worlds.hpp"
#include "support/catch.hpp"

#include <memory>
#include <string>
#include <vector>

namespace muster {

using namespace std::chrono_literals;

namespace {

NodeInfo member(NodeId id) {
  const std::string number = std::to_string(id);
  return NodeInfo{id, "n" + number, "10.0.0." + number, 9, 1, "", -1};
}

RoundPtr round_of(RoundId id, const std::vector<NodeId>& members) {
  auto round = std::make_shared<Round>();
  round->id = id;
  round->job = 2;
  for (const NodeId each : members) {
    round->members.push_back(member(each));
  }
  return round;
}

// Node 1, whose record never completes unless a test says so.
struct Recorder {
  NodeSettings made = settings(1, 2, 3);
  NodeCore core;
  NodeEffects out;
  TimePoint now{1h};

  static NodeSettings recording(NodeSettings chosen) {
    chosen.records = true;
    return chosen;
  }

  explicit Recorder(int max) : core(recording(settings(1, max, 3)), member(1), 0) {}

  void step(const NodeEvent& event) { core.step(now, event, out); }

  void hear(LinkId link, RoundMessage message) {
    step(MessageReceived{link, std::make_shared<const RoundMessage>(std::move(message))});
  }

  template <class Effect>
  [[nodiscard]] const Effect* last() const {
    const Effect* found = nullptr;
    for (const NodeEffect& effect : out) {
      const auto* here = std::get_if<Effect>(&effect);
      found = here != nullptr ? here : found;
    }
    return found;
  }

  // Node 2 leads and proposes a round. Then its kernel refuses connections.
  void lose_leader(const RoundPtr& base, const RoundPtr& proposed) {
    step(NodeStarted{});
    step(LinkOpened{last<OpenLink>()->link});
    const LinkId leader = last<OpenLink>()->link;
    hear(leader, Welcome{member(2), 9s});
    hear(leader, Propose{proposed, base});
    REQUIRE(last<RecordRound>()->memory.accepted == proposed);
    step(LinkClosed{leader, LinkEnd::closed, ""});
    step(LinkClosed{last<OpenLink>()->link, LinkEnd::refused, ""});
  }
};

}  // namespace

TEST_CASE(
    "recording: a newcomer withdraws a proposal and queries the members of the running round") {
  Recorder node(3);
  node.lose_leader(round_of({1, 2}, {2, 3}), round_of({2, 2}, {2, 3, 1}));
  CHECK(node.last<OpenLink>()->host == member(3).address);
  node.step(LinkOpened{node.last<OpenLink>()->link});
  const auto* hello = std::get_if<Hello>(node.last<SendMessage>()->message.get());
  REQUIRE(hello != nullptr);
  CHECK(hello->accepted == RoundId{});
}

// It may lead the job, and must then know the previous round.
TEST_CASE("recording: a member of the previous round keeps the only proposal that it knows") {
  Recorder node(2);
  node.lose_leader(round_of({1, 2}, {2, 1}), round_of({2, 2}, {2, 1}));
  REQUIRE(node.core.coordinator().leads());
  CHECK(node.core.coordinator().started() == RoundId{1, 2});
}

TEST_CASE("recording: a node keeps the first proposal of the job") {
  Recorder node(2);
  node.lose_leader(round_of({}, {}), round_of({1, 2}, {2, 1}));
  REQUIRE(node.core.coordinator().leads());
  CHECK(node.core.coordinator().started() == RoundId{1, 2});
}

// It yields to node 7, which leads a later round, while it records its own second proposal.
TEST_CASE("recording: a leader keeps its own proposal, so that no number is reused") {
  Recorder node(1);
  node.step(NodeStarted{true});
  const RoundId first{1, 1};
  node.step(RoundRecorded{first});
  node.step(StoreOpened{first, "10.0.0.1", 7});
  REQUIRE(node.last<RunRound>() != nullptr);
  Failed failed;
  failed.round = first;
  failed.run_time = 1h;
  node.step(WorkerFailedHere{failed, node.now, {}, false});
  node.step(WorkersGone{});
  REQUIRE(node.last<RecordRound>()->memory.accepted->id == RoundId{2, 1});
  Hello claim;
  claim.purpose = Purpose::ask;
  claim.terms = node.made.terms;
  claim.node = member(7);
  claim.started = RoundId{9, 7};
  claim.coordinates = true;
  node.step(LinkAccepted{2, "10.0.0.7"});
  node.hear(2, claim);
  const LinkId question = node.last<OpenLink>()->link;
  node.step(LinkOpened{question});
  node.hear(question, Claim{member(7), member(7), RoundId{9, 7}, false});
  REQUIRE_FALSE(node.core.coordinator().leads());
  CHECK(node.last<RecordRound>()->memory.accepted->id == RoundId{2, 1});
}

}  // namespace muster
