// SPDX-License-Identifier: Apache-2.0
#include "made_worlds.hpp"
#include "support/catch.hpp"

namespace muster {
using namespace std::chrono_literals;

TEST_CASE("node core: a round forms as soon as the maximum number of nodes has arrived") {
  SmallWorld world(settings(1, 3));
  world.add("n2", true);
  world.add("n10");
  REQUIRE(ranks(world) == std::vector{-1, -1});
  world.add("n1");
  REQUIRE(ranks(world) == std::vector{1, 2, 0});
  CHECK(world.nodes[0].running->master_addr == "10.0.0.3");
  CHECK(world.nodes[0].running->master_port == 7);
  CHECK(world.nodes[0].running->round == world.nodes[2].running->round);
}

TEST_CASE(
    "node core: all nodes receive the offer of rank 0's node, which may change with the round") {
  SmallWorld world(settings(1, 3));
  world.offer = {false, {40001, 40002}};
  for (const char* name : {"a", "b", "c"}) {
    world.add(name, std::string_view(name) == "a");
  }
  REQUIRE(ranks(world) == std::vector{0, 1, 2});
  for (const auto& node : world.nodes) {
    CHECK(node.running->offer == LeaderOffer{false, {40001, 40002}});
  }
  world.offer = {};
  world.kill(0);
  REQUIRE(ranks(world) == std::vector{-1, 0, 1});
  CHECK(world.nodes[1].running->offer == LeaderOffer{});
  CHECK(world.nodes[2].running->offer == LeaderOffer{});
}

TEST_CASE("node core: the minimum number of nodes forms a round after the last call") {
  SmallWorld world(settings(2, 3));
  world.add("a", true);
  world.add("b");
  world.pass(29s);
  REQUIRE(ranks(world) == std::vector{-1, -1});
  world.pass(2s);
  REQUIRE(ranks(world) == std::vector{0, 1});
}

TEST_CASE("node core: nodes that start before the founder find it") {
  SmallWorld world(settings(2, 2));
  world.add("b");
  world.pass(3s);
  CHECK(world.nodes[0].trouble == "cannot reach endpoint:1: nobody there");
  world.add("a", true);
  world.pass(1s);
  REQUIRE(ranks(world) == std::vector{1, 0});
}

TEST_CASE("node core: fails if no round forms in time") {
  SmallWorld world(settings(2, 2));
  world.add("a", true);
  world.pass(601s);
  CHECK(world.nodes[0].ended == "failed: no round of job 'job' was formed within 600s");
}

TEST_CASE("node core: a job without events keeps running") {
  SmallWorld world = running_world(3, 1);
  world.pass(1h);
  CHECK(ranks(world) == std::vector{0, 1, 2});
  CHECK(world.nodes[2].runs == 1);
}

TEST_CASE("node core: a failed worker restarts all nodes and uses the job's budget") {
  SmallWorld world = running_world(3, 1, 1);
  fail_worker(world, 1, 7);
  REQUIRE(ranks(world) == std::vector{0, 1, 2});
  CHECK(world.nodes[0].runs == 2);
  CHECK(world.nodes[2].running->round->restart_count == 1);
  fail_worker(world, 2, 9);
  for (const SmallNode& node : world.nodes) {
    REQUIRE(node.ended == "closed");
    CHECK(node.close->exit_code == 9);
    CHECK(node.close->root_node == "n2");
    CHECK(node.close->details == "details");
    CHECK(node.close->reason == "all 1 restarts are used up");
  }
}

TEST_CASE(
    "node core: the end waits for workers that are being stopped, which may have failed first") {
  SmallWorld world = running_world(3, 1);
  world.nodes[1].obedient = false;
  const TimePoint seen = world.now();
  Failed first;
  first.round = world.nodes[1].running->round->id;
  first.rank = 1;
  first.exit_code = 3;
  first.run_time = 1h;
  first.text = "exited with code 3";
  world.pass(100ms);
  fail_worker(world, 2, 4);
  CHECK(world.nodes[0].ended.empty());
  world.pass(100ms);
  world.feed(1, WorkerFailedHere{first, world.now(), seen, true});  // its error file has the time
  world.feed(1, Details{first.round, 1, "earlier"});
  world.feed(1, WorkersGone{});
  for (const SmallNode& node : world.nodes) {
    REQUIRE(node.close);
    CHECK(node.close->root_rank == 1);
    CHECK(node.close->exit_code == 3);
    CHECK(node.close->details == "earlier");
  }
}

TEST_CASE("node core: the end waits for such workers at most one second") {
  SmallWorld world = running_world(3, 1);
  world.nodes[1].obedient = false;
  fail_worker(world, 2, 4);
  world.pass(900ms);
  CHECK_FALSE(world.nodes[0].close);
  world.pass(200ms);
  REQUIRE(world.nodes[0].close);
  CHECK(world.nodes[0].close->root_rank == 2);
}

TEST_CASE(
    "node core: a killed node is proven dead, and the others continue without using the budget") {
  SmallWorld world = running_world(3, 1);
  world.kill(2);
  REQUIRE(ranks(world) == std::vector{0, 1, -1});
  CHECK(world.nodes[0].running->round->restart_count == 0);
  CHECK(world.nodes[0].running->round->id.number == 2);
}

TEST_CASE("node core: a failure caused by a node's death uses no budget") {
  SmallWorld world = running_world(3, 1);
  world.cut(2);
  fail_worker(world, 1, 1);
  CHECK(world.nodes[1].ended.empty());
  world.heal(2);
  world.kill(2);
  REQUIRE(ranks(world) == std::vector{0, 1, -1});
}

TEST_CASE("node core: the host is killed and the node with the lowest rank takes over") {
  SmallWorld world = running_world(4, 1);
  world.kill(0);
  world.pass(1s);
  REQUIRE(ranks(world) == std::vector{-1, 0, 1, 2});
  world.kill(1);
  world.pass(1s);
  REQUIRE(ranks(world) == std::vector{-1, -1, 0, 1});
  world.kill(2);
  world.pass(1s);
  REQUIRE(ranks(world) == std::vector{-1, -1, -1, 0});
}

TEST_CASE("node core: a silent node is given up after its lease") {
  SmallWorld world = running_world(3, 1);
  world.cut(2);
  world.pass(4s);
  CHECK(ranks(world) == std::vector{0, 1, 2});
  world.pass(2s);  // fenced at 0.45 of the lease after its last granted beat
  CHECK(ranks(world) == std::vector{0, 1, -1});
  CHECK(world.nodes[0].runs == 1);
  world.pass(6s);
  REQUIRE(ranks(world) == std::vector{0, 1, -1});
  CHECK(world.nodes[0].runs == 2);
  world.heal(2);
  world.pass(10s);
  REQUIRE(ranks(world) == std::vector{0, 1, 2});
}

TEST_CASE("node core: the side with the majority continues") {
  SmallWorld world = running_world(3, 1);
  world.cut(0);
  world.pass(30s);
  REQUIRE(ranks(world) == std::vector{-1, 0, 1});
  world.heal(0);
  world.pass(10s);
  REQUIRE(ranks(world) == std::vector{0, 1, 2});
}

TEST_CASE("node core: if one of two nodes falls silent, only the first one continues") {
  SmallWorld world = running_world(2, 1);
  world.cut(1);
  world.pass(60s);
  REQUIRE(ranks(world) == std::vector{0, -1});
}

TEST_CASE("node core: the second node waits for a silent first one") {
  SmallWorld world = running_world(2, 1);
  world.cut(0);
  world.pass(60s);
  // The node that is cut off is the first of two, so it is the half that continues.
  REQUIRE(ranks(world) == std::vector{0, -1});
  world.heal(0);
  world.pass(10s);
  REQUIRE(ranks(world) == std::vector{0, 1});
}

TEST_CASE("node core: a spare replaces a lost member") {
  SmallWorld world = running_world(2, 2);
  world.add("spare");
  world.pass(5s);
  REQUIRE(ranks(world) == std::vector{0, 1, -1});
  world.kill(1);
  REQUIRE(ranks(world) == std::vector{0, -1, 1});
}

TEST_CASE("node core: a spare shows what it waits for, waits indefinitely and ends with the job") {
  SmallWorld world = running_world(2, 2);
  const std::size_t spare = world.add("spare");
  CHECK(world.nodes[spare].roll_call.names == std::vector<std::string>{"n0", "n1"});
  world.pass(2000s);  // longer than it would wait for a first round
  CHECK(world.nodes[spare].ended.empty());
  world.kill(0);  // now it knows which node to ask
  REQUIRE(ranks(world) == std::vector{-1, 0, 1});
}

TEST_CASE("node core: the error at the end names an endpoint that never answers") {
  SmallWorld world(settings(2, 2));
  world.add("a", true);
  world.cut(0);
  world.add("b");
  world.pass(601s);
  CHECK(world.nodes[1].ended.find("endpoint") != std::string::npos);
}

TEST_CASE("node core: a newcomer makes a running job with room regroup, at any rank") {
  SmallWorld world(settings(1, 3));
  world.add("m", true);
  world.pass(31s);
  REQUIRE(ranks(world) == std::vector{0});
  world.add("z");
  REQUIRE(ranks(world) == std::vector{0, 1});
  world.add("a");
  REQUIRE(ranks(world) == std::vector{1, 2, 0});
}

TEST_CASE("node core: a node that was asked to leave is not waited for once its workers are gone") {
  SmallWorld world = running_world(3, 1);
  world.feed(1, LeaveAsked{"SIGTERM"});
  REQUIRE(world.nodes[0].runs == 1);
  world.nodes[1].running.reset();
  world.feed(1, WorkersGone{});
  CHECK(world.nodes[1].ended == "left");
  REQUIRE(ranks(world) == std::vector{0, -1, 1});
}

TEST_CASE("node core: the host leaves") {
  SmallWorld world = running_world(3, 1);
  world.feed(0, LeaveAsked{"SIGTERM"});
  world.nodes[0].running.reset();
  world.feed(0, WorkersGone{});
  CHECK(world.nodes[0].ended == "left");
  world.pass(1s);
  REQUIRE(ranks(world) == std::vector{-1, 0, 1});
}

TEST_CASE("node core: who finishes early leaves, and all end well") {
  SmallWorld world = running_world(3, 1);
  world.nodes[2].running.reset();
  world.feed(2, WorkersFinished{});
  CHECK(world.nodes[2].ended == "finished");
  world.feed(0, WorkersFinished{});
  CHECK(world.nodes[0].ended.empty());
  world.pass(60s);
  CHECK(world.nodes[1].running);
  world.feed(1, WorkersFinished{});
  world.pass(2s);
  REQUIRE(world.nodes[0].ended == "closed");
  CHECK(world.nodes[0].close->succeeded);
}

TEST_CASE(
    "node core: a node that has succeeded does not rejoin, and the end is not delayed for long") {
  SmallWorld world = running_world(3, GENERATE(1, 2));
  world.feed(1, WorkersFinished{});
  REQUIRE(world.nodes[1].ended == "finished");
  world.cut(2);
  world.pass(9s);  // the lease
  REQUIRE(world.nodes[0].ended.empty());
  CHECK(ranks(world)[0] == -1);
  world.pass(29s);  // the last call: a newcomer would be accepted
  CHECK(world.nodes[0].ended.empty());
  world.pass(2s);
  REQUIRE(world.nodes[0].close);
  CHECK_FALSE(world.nodes[0].close->succeeded);
  CHECK(world.nodes[0].close->exit_code == 1);
  CHECK(world.nodes[0].close->root_rank == -1);
  CHECK(
      world.nodes[0].close->reason ==
      "node 'n0' lost contact and killed its workers, and too few nodes remain for another round: "
      "1 of 3 have succeeded and left, missing: n2 (silent; may still be running without us)");
}

TEST_CASE(
    "node core: a failure after others have succeeded is the cause even if a restart was left") {
  SmallWorld world = running_world(2, 2, 3);
  world.feed(1, WorkersFinished{});
  fail_worker(world, 0, 7);
  world.pass(29s);
  REQUIRE(world.nodes[0].ended.empty());
  world.pass(2s);
  REQUIRE(world.nodes[0].close);
  CHECK(world.nodes[0].close->exit_code == 7);
  CHECK(world.nodes[0].close->root_rank == 0);
  CHECK(world.nodes[0].close->reason ==
        "rank 0 on 'n0' exited with code 7, and too few nodes remain for another round: 1 of 2 "
        "have succeeded and left");
}

TEST_CASE("node core: a newcomer replaces a lost member even if others have succeeded") {
  SmallWorld world = running_world(3, 2);
  world.feed(1, WorkersFinished{});
  world.kill(2);
  world.pass(5s);
  REQUIRE(world.nodes[0].ended.empty());
  world.add("n3");
  world.pass(1s);
  CHECK(ranks(world) == std::vector{0, -1, -1, 1});
}

TEST_CASE("node core: the end of a job waits for a returning member") {
  SmallWorld world = running_world(3, 1);
  world.nodes[1].obedient = false;  // its workers exit late
  fail_worker(world, 2, 7);
  world.reset(1);
  world.pass(500ms);
  for (const SmallNode& node : world.nodes) {
    CHECK(node.ended == "closed");
    REQUIRE(node.close);
    CHECK(node.close->exit_code == 7);
  }
}

TEST_CASE("node core: the end of a job waits for no dead member, and not long for a live one") {
  for (const bool gone : {true, false}) {
    SmallWorld world = running_world(3, 1);
    world.nodes[1].obedient = false;
    fail_worker(world, 2, 7);
    if (gone) {
      world.kill(1);
    } else {
      world.cut(1);
      world.reset(1);
    }
    world.pass(gone ? 0s : 2s);
    CHECK(world.nodes[0].ended == "closed");
    CHECK(world.nodes[2].ended == "closed");
  }
}

TEST_CASE("node core: a node of another job is refused with its own job's name") {
  SmallWorld world(settings(2, 2));
  world.add("a", true);
  NodeSettings other = settings(2, 2);
  other.terms.job_id = "other";
  NodeInfo info;
  info.id = 77;
  info.name = "x";
  info.address = "10.0.0.2";
  world.add("x");
  world.nodes[1].core = std::make_unique<NodeCore>(other, info, 1);
  world.feed(1, NodeStarted{false});
  CHECK(world.nodes[1].ended ==
        "failed: refused by endpoint:1: the endpoint serves a different job than 'other'; use "
        "another port for another job, or the same --rdzv-id");
}

TEST_CASE("node core: a restarted host finds its successor") {
  SmallWorld world = running_world(3, 1);
  world.kill(0);
  world.pass(1s);
  REQUIRE(ranks(world) == std::vector{-1, 0, 1});
  world.add("n0", true);
  world.pass(2s);
  REQUIRE(ranks(world) == std::vector{-1, 1, 2, 0});
}

TEST_CASE("node core: binds an endpoint that another program used for a moment once it is free") {
  NodeCore core(settings(2, 2), NodeInfo{1, "a", "10.0.0.1", 2, 1, "", -1}, 0);
  const TimePoint now{};
  NodeEffects out;
  core.step(now, NodeStarted{.hosts = false, .may_host = true}, out);
  core.step(now, LinkClosed{1, LinkEnd::refused, "Connection refused"}, out);
  const auto asks = [&] {
    return std::ranges::any_of(
        out, [](const NodeEffect& effect) { return std::holds_alternative<BindEndpoint>(effect); });
  };
  CHECK(asks());
  CHECK_FALSE(core.coordinator().leads());
  core.step(now, EndpointBound{}, out);
  CHECK(core.coordinator().leads());
}

TEST_CASE("node core: does not bind an endpoint on another machine, or one with a leader") {
  NodeCore core(settings(2, 2), NodeInfo{1, "a", "10.0.0.1", 2, 1, "", -1}, 0);
  const TimePoint now{};
  NodeEffects out;
  core.step(now, NodeStarted{}, out);
  core.step(now, LinkClosed{1, LinkEnd::refused, "Connection refused"}, out);
  CHECK(std::ranges::none_of(
      out, [](const NodeEffect& effect) { return std::holds_alternative<BindEndpoint>(effect); }));
  NodeCore led(settings(2, 2), NodeInfo{1, "a", "10.0.0.1", 2, 1, "", -1}, 0);
  led.step(now, NodeStarted{.hosts = false, .may_host = true}, out);
  led.step(now, LinkOpened{1}, out);
  Welcome welcome{NodeInfo{2, "b", "10.0.0.2", 2, 1, "", -1}, 9s};
  led.step(now, MessageReceived{1, std::make_shared<const RoundMessage>(welcome)}, out);
  led.step(now, EndpointBound{}, out);
  CHECK_FALSE(led.coordinator().leads());
}

TEST_CASE("node core: the exit of workers that have already finished is not reported again") {
  NodeCore core(settings(2, 2), NodeInfo{1, "a", "10.0.0.1", 2, 1, "", -1}, 0);
  const TimePoint now{};
  NodeEffects out;
  core.step(now, NodeStarted{false}, out);
  core.step(now, LinkOpened{1}, out);
  Welcome welcome{NodeInfo{2, "b", "10.0.0.2", 2, 1, "", -1}, 9s};
  core.step(now, MessageReceived{1, std::make_shared<const RoundMessage>(welcome)}, out);
  REQUIRE(std::holds_alternative<Ready>(*std::get<SendMessage>(out.back()).message));
  out.clear();
  core.step(now, WorkersGone{}, out);
  CHECK(out.empty());
}

TEST_CASE("node core: a node that finishes after its workers were reported gone can rejoin") {
  SmallWorld world = running_world(3, 3, 1);
  world.nodes[1].obedient = false;
  world.nodes[2].obedient = false;
  fail_worker(world, 0, 7);
  world.feed(1, WorkersGone{});
  world.feed(1, WorkersFinished{});
  REQUIRE(world.nodes[0].runs == 1);
  world.feed(2, WorkersGone{});
  CHECK(world.nodes[1].runs == 2);
  CHECK(ranks(world) == std::vector{0, 1, 2});
}

}  // namespace muster
