// SPDX-License-Identifier: Apache-2.0
// Which rank blocks the job: all nodes are queried, nodes that do not answer are skipped, and all
// nodes receive one verdict.
#include "rendezvous/round/questions/inquiry.hpp"

#include "made_worlds.hpp"
#include "support/catch.hpp"

#include <string>
#include <variant>
#include <vector>

namespace muster {

using namespace std::chrono_literals;

namespace {

using Texts = std::vector<std::string>;

SmallWorld world_of_three(int restarts = 0) {
  SmallWorld world = running_world(3, 2, restarts);
  REQUIRE(ranks(world) == std::vector{0, 1, 2});
  return world;
}

const NodeAnswer& answer_of(const SmallWorld& world, std::size_t node) {
  REQUIRE(world.nodes[0].judged.size() == 1);
  return world.nodes[0].judged.front().nodes.at(node);
}

}  // namespace

TEST_CASE("inquiry: all nodes inspect, the leader judges, and all receive the verdict") {
  SmallWorld world = world_of_three();
  world.feed(1, InquireHere{});
  REQUIRE(world.nodes[0].judged.size() == 1);
  const JudgeNow& judged = world.nodes[0].judged.front();
  CHECK(judged.round == world.nodes[0].running->round->id);
  REQUIRE(judged.nodes.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    const NodeAnswer& answer = judged.nodes[i];
    CHECK(answer.presence == Presence::answered);
    CHECK(answer.name == world.nodes[i].info.name);
    CHECK(answer.ranks == RankSpan{static_cast<std::int32_t>(i), 1});
    CHECK(answer.findings == "seen by " + answer.name);
    CHECK(world.nodes[i].verdicts == Texts{"verdict 1"});
    CHECK(world.nodes[i].judged.empty() == (i != 0));
  }
}

TEST_CASE("inquiry: nodes that ask during an inspection receive the same verdict") {
  SmallWorld world = world_of_three();
  world.nodes[2].looks = false;
  world.feed(1, InquireHere{});
  world.feed(0, InquireHere{});
  world.feed(2, InquireHere{});
  CHECK(world.nodes[1].asked_to_look == 1);
  CHECK(world.nodes[0].judged.empty());
  const RoundId round = world.nodes[2].running->round->id;
  world.feed(2, LookedHere{{round, 1, "late but there"}});
  CHECK(answer_of(world, 2).findings == "late but there");
  for (const SmallNode& node : world.nodes) {
    CHECK(node.verdicts == Texts{"verdict 1"});
  }
}

TEST_CASE("inquiry: a node that asks before it has received the verdict gets it again") {
  SmallWorld world = world_of_three();
  world.nodes[0].judges = false;
  world.feed(1, InquireHere{});
  const JudgeNow asked = world.nodes[0].judged.at(0);
  world.cut(2);
  world.feed(0, JudgedHere{{asked.round, asked.inquiry, "once"}});
  world.heal(2);
  CHECK(world.nodes[1].verdicts == Texts{"once"});
  CHECK(world.nodes[2].verdicts.empty());
  world.feed(2, InquireHere{});
  CHECK(world.nodes[2].verdicts == Texts{"once"});
  CHECK(world.nodes[0].judged.size() == 1);
  // A node that knows the cause requests another inquiry.
  world.nodes[0].judges = true;
  world.feed(2, InquireHere{});
  world.pass(1s);
  CHECK(world.nodes[0].judged.size() == 2);
  CHECK(world.nodes[2].verdicts == Texts{"once", "verdict 1"});
}

TEST_CASE("inquiry: the next inquiry begins shortly after the previous one") {
  SmallWorld world = world_of_three();
  world.feed(1, InquireHere{});
  world.feed(1, InquireHere{});
  CHECK(world.nodes[0].judged.size() == 1);
  world.pass(kBetweenInquiries);
  CHECK(world.nodes[0].judged.size() == 2);
  CHECK(world.nodes[1].verdicts == Texts{"verdict 1", "verdict 2"});
}

TEST_CASE("inquiry: skips a silent node after two missed beats") {
  SmallWorld world = world_of_three();
  world.cut(2);
  world.feed(1, InquireHere{});
  world.pass(silent_after(9s) - 1s);
  CHECK(world.nodes[0].judged.empty());
  world.pass(1s + inquiry_scan(9s));
  const NodeAnswer& silent = answer_of(world, 2);
  CHECK(silent.presence == Presence::silent);
  CHECK(silent.silent_for >= silent_after(9s));
  CHECK(silent.findings.empty());
  CHECK(answer_of(world, 1).presence == Presence::answered);
  CHECK(world.nodes[1].verdicts == Texts{"verdict 1"});
}

TEST_CASE("inquiry: skips a node that sends beats but no answer, later") {
  SmallWorld world = world_of_three();
  world.nodes[1].looks = false;
  world.feed(0, InquireHere{});
  world.pass(kAnswerMax - 1s);
  CHECK(world.nodes[0].judged.empty());
  world.pass(1s);
  CHECK(answer_of(world, 1).presence == Presence::late);
  CHECK(answer_of(world, 2).presence == Presence::answered);
  // Its answer arrives too late, and the next inquiry has a different number.
  const RoundId round = world.nodes[1].running->round->id;
  world.feed(1, LookedHere{{round, 1, "too late"}});
  world.nodes[1].looks = true;
  world.feed(0, InquireHere{});
  world.pass(1s);
  REQUIRE(world.nodes[0].judged.size() == 2);
  CHECK(world.nodes[0].judged.back().nodes[1].findings == "seen by n1");
}

TEST_CASE("inquiry: queries a returning node again") {
  SmallWorld world = world_of_three();
  world.nodes[2].looks = false;
  world.feed(1, InquireHere{});
  CHECK(world.nodes[2].asked_to_look == 1);
  world.nodes[2].looks = true;
  world.reset(2);
  world.pass(1s);
  CHECK(world.nodes[2].asked_to_look == 2);
  CHECK(answer_of(world, 2).presence == Presence::answered);
}

TEST_CASE("inquiry: does not query a node whose workers have finished") {
  SmallWorld world = world_of_three();
  world.feed(2, WorkersFinished{});
  world.feed(1, InquireHere{});
  CHECK(answer_of(world, 2).presence == Presence::finished);
  CHECK(world.nodes[2].asked_to_look == 0);
}

TEST_CASE("inquiry: the end of the round ends it") {
  SmallWorld world = running_world(3, 2, 3);
  world.nodes[2].looks = false;
  world.feed(1, InquireHere{});
  const RoundId old = world.nodes[2].running->round->id;
  fail_worker(world, 1, 3);
  world.pass(1s);
  REQUIRE(world.nodes[2].running);
  REQUIRE(world.nodes[2].running->round->id != old);
  world.feed(2, LookedHere{{old, 1, "of the round before"}});
  world.pass(20s);
  CHECK(world.nodes[0].judged.empty());
  world.nodes[2].looks = true;
  world.feed(2, InquireHere{});
  CHECK(world.nodes[0].judged.size() == 1);
  CHECK(world.nodes[2].verdicts == Texts{"verdict 1"});
}

TEST_CASE("inquiry: a node dies during an inquiry") {
  SmallWorld world = running_world(3, 2, 0);
  world.nodes[2].looks = false;
  world.feed(1, InquireHere{});
  world.kill(2);
  world.pass(5s);
  // It is proven dead: the others continue without it, and start a new inquiry if necessary.
  CHECK(world.nodes[0].judged.empty());
  REQUIRE(world.nodes[1].running);
  CHECK(world.nodes[1].running->round->members.size() == 2);
  world.feed(1, InquireHere{});
  CHECK(world.nodes[0].judged.size() == 1);
  CHECK(world.nodes[1].verdicts == Texts{"verdict 1"});
}

TEST_CASE("inquiry: the leader dies, and the next one is asked") {
  SmallWorld world = running_world(3, 2, 0);
  world.nodes[2].looks = false;
  world.feed(1, InquireHere{});
  world.kill(0);
  world.nodes[2].looks = true;
  world.pass(20s);
  REQUIRE(world.nodes[1].running);
  world.feed(2, InquireHere{});
  CHECK(world.nodes[1].verdicts == Texts{"verdict 1"});
  CHECK(world.nodes[2].verdicts == Texts{"verdict 1"});
}

TEST_CASE("inquiry: only members of the running round ask and answer") {
  SmallWorld world = running_world(3, 2, 0);
  world.add("spare");
  world.pass(1s);
  world.nodes[1].looks = false;
  world.feed(3, InquireHere{});
  CHECK(world.nodes[0].asked_to_look == 0);
  world.feed(2, InquireHere{});
  const RoundId round = world.nodes[2].running->round->id;
  world.feed(3, LookedHere{{round, 1, "of a spare"}});
  world.feed(2, LookedHere{{round, 1, "twice"}});
  world.feed(1, LookedHere{{round, 2, "of another inquiry"}});
  world.feed(1, LookedHere{{round, 1, std::string(findings_max(3) + 1, 'x')}});
  CHECK(world.nodes[0].judged.empty());
  world.feed(1, LookedHere{{round, 1, "n1"}});
  CHECK(answer_of(world, 1).findings == "n1");
  CHECK(answer_of(world, 2).findings == "seen by n2");
}

TEST_CASE("inquiry: a verdict that was not requested is not forwarded") {
  SmallWorld world = world_of_three();
  const RoundId round = world.nodes[0].running->round->id;
  world.feed(0, JudgedHere{{round, 0, "made up"}});
  world.feed(0, JudgedHere{{round, 1, "made up"}});
  CHECK(world.nodes[1].verdicts.empty());
}

TEST_CASE("inquiry: many nodes share the size limit for answers") {
  CHECK(findings_max(2) == kMaxFindingsBytes);
  CHECK(findings_max(10'000) * std::size_t{10'000} <= kFindingsOfAllMax);
  CHECK(findings_max(kMaxMembers) == kFindingsLeast);
}

}  // namespace muster
