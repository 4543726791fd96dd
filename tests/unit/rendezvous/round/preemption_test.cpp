// SPDX-License-Identifier: Apache-2.0
// The scheduler will stop the job: all nodes are queried once, receive one decision, and the job
// does not form another round.
#include "made_worlds.hpp"
#include "rendezvous/round/questions/inquiry.hpp"
#include "support/catch.hpp"

#include <string>
#include <vector>

namespace muster {

using namespace std::chrono_literals;

namespace {

using Texts = std::vector<std::string>;

const InquireHere kNotice{Topic::preemption, "30000 SIGTERM"};

}  // namespace

TEST_CASE("preemption: one notice reaches all nodes once, and so does the decision") {
  SmallWorld world = running_world(3, 2, 3);
  world.feed(1, kNotice);
  world.feed(2, kNotice);
  world.pass(1s);
  REQUIRE(world.nodes[0].judged.size() == 1);
  CHECK(world.nodes[0].judged[0].topic == Topic::preemption);
  CHECK(world.nodes[0].judged[0].request == "30000 SIGTERM");
  for (const SmallNode& node : world.nodes) {
    CHECK(node.asked_to_look == 1);
    CHECK(node.verdicts == Texts{"verdict 1"});
  }
}

TEST_CASE("preemption: does not wait for an inspection of a hang, and decides sooner") {
  SmallWorld world = running_world(3, 2, 3);
  world.nodes[2].looks = false;
  world.feed(1, InquireHere{});
  world.feed(1, kNotice);
  CHECK(world.nodes[2].asked_to_look == 2);
  world.pass(kAnswerMaxPreemption);
  CHECK(world.nodes[1].verdicts == Texts{"verdict 1"});
  world.pass(kAnswerMax - kAnswerMaxPreemption);
  CHECK(world.nodes[1].verdicts == Texts{"verdict 1", "verdict 2"});
}

TEST_CASE("preemption: a node that misses the decision receives it when it is back") {
  SmallWorld world = running_world(3, 2, 3);
  world.cut(2);
  world.feed(1, kNotice);
  world.pass(kAnswerMaxPreemption);
  REQUIRE(world.nodes[1].verdicts == Texts{"verdict 1"});
  REQUIRE(world.nodes[2].verdicts.empty());
  world.reset(2);
  world.heal(2);
  world.pass(1s);
  CHECK(world.nodes[2].verdicts == Texts{"verdict 1"});
  CHECK(world.nodes[1].verdicts == Texts{"verdict 1"});
}

TEST_CASE("preemption: a failure after the notice ends the job, although restarts are left") {
  SmallWorld world = running_world(3, 2, 3);
  world.feed(1, kNotice);
  fail_worker(world, 2, 9);
  world.pass(5s);
  for (const SmallNode& node : world.nodes) {
    CHECK(node.runs == 1);
    REQUIRE(node.close);
    CHECK_FALSE(node.close->succeeded);
    CHECK(node.close->exit_code == 9);
    CHECK(node.close->reason == kPreemptedVerdict);
  }
}

TEST_CASE("preemption: the loss of a node after the notice ends the job without a failure") {
  SmallWorld world = running_world(3, 2, 3);
  world.feed(1, kNotice);
  world.kill(2);
  world.pass(20s);
  for (const std::size_t node : {0U, 1U}) {
    CHECK(world.nodes[node].runs == 1);
    REQUIRE(world.nodes[node].close);
    CHECK(world.nodes[node].close->succeeded);
  }
}

TEST_CASE("preemption: a node that joins after the notice gets no round") {
  SmallWorld world = running_world(3, 2, 3);
  world.kill(2);
  world.pass(20s);
  REQUIRE(world.nodes[0].runs == 2);
  world.feed(1, kNotice);
  world.add("late");
  world.pass(20s);
  CHECK(world.nodes[0].runs == 2);
  CHECK(world.nodes[3].runs == 0);
}

TEST_CASE("preemption: of one node, which leaves: the others continue, and no restart is used up") {
  SmallWorld world = running_world(3, 2, 3);
  world.feed(1, InquireHere{Topic::departure, "30000 SIGTERM"});
  world.pass(1s);
  CHECK(world.nodes[2].verdicts == Texts{"verdict 1"});
  world.nodes[1].running.reset();
  world.feed(1, LeaveAsked{"the scheduler stops it", true});
  CHECK(world.nodes[0].stops_planned);
  CHECK(world.nodes[2].stops_planned);
  world.feed(1, WorkersGone{});
  CHECK(world.nodes[1].ended == "left");
  world.pass(5s);
  CHECK(world.nodes[0].runs == 2);
  CHECK(world.nodes[2].runs == 2);
}

}  // namespace muster
