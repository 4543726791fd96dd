// SPDX-License-Identifier: Apache-2.0
#include "agent/sinks/roll_call.hpp"

#include "support/catch.hpp"

using namespace muster;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint kStart{1h};

RollCall call_of(std::int32_t present,
                 std::vector<std::string> awaited = {},
                 std::vector<std::string> refused = {}) {
  RollCall call;
  call.present = present;
  call.needed = 4;
  for (std::int32_t i = 1; i <= present; ++i) {
    call.names.push_back("node" + std::to_string(i));
  }
  call.awaited = std::move(awaited);
  call.refused = std::move(refused);
  return call;
}

RollCallView view(bool live = false) {
  RollCallStyle style;
  style.live = live;
  style.columns = 60;
  RollCallView made{style};
  made.begin(kStart);
  return made;
}

}  // namespace

TEST_CASE("roll call: nothing is said in the first second, then the latest news") {
  RollCallView roll = view();
  CHECK_FALSE(roll.next_deadline());
  CHECK(roll.take(kStart + 100ms, call_of(1), "").empty());
  CHECK(roll.take(kStart + 200ms, call_of(2), "").empty());
  REQUIRE(roll.next_deadline());
  CHECK(*roll.next_deadline() == kStart + 1s);
  CHECK(roll.tick(kStart + 999ms).empty());
  CHECK(roll.tick(kStart + 1s) ==
        "muster: 2 of 4 nodes are here: node1, node2; waiting for 2 more\n");
  CHECK(roll.tick(kStart + 2s).empty());
}

TEST_CASE("roll call: a start that waits says so again every 30 s") {
  RollCallView roll = view();
  REQUIRE_FALSE(roll.take(kStart + 2s, call_of(1), "").empty());
  REQUIRE(roll.next_deadline());
  CHECK(*roll.next_deadline() == kStart + 32s);
  CHECK(roll.tick(kStart + 31s).empty());
  CHECK(roll.tick(kStart + 32s) ==
        "muster: after 32 s: 1 of 4 nodes is here: node1; waiting for 3 more\n");
  CHECK(roll.tick(kStart + 61s).empty());
  CHECK(roll.tick(kStart + 62s).starts_with("muster: after 62 s: 1 of 4"));
  // News restarts the 30 s.
  CHECK_FALSE(roll.take(kStart + 80s, call_of(2), "").empty());
  CHECK(roll.tick(kStart + 92s).empty());
  CHECK(roll.tick(kStart + 110s).starts_with("muster: after 110 s: 2 of 4"));
  CHECK_FALSE(roll.take(kStart + 111s, RollCall{}, "cannot reach h1").empty());
  CHECK(roll.tick(kStart + 141s) == "muster: after 141 s: cannot reach h1; trying again\n");
  roll.stop_repeating();
  CHECK_FALSE(roll.next_deadline());
}

TEST_CASE("roll call: a spare of a job that runs says once that it waits") {
  RollCallView roll = view();
  CHECK_FALSE(roll.take(kStart + 2s, call_of(4), "").empty());
  CHECK_FALSE(roll.next_deadline());
}

TEST_CASE("roll call: whoever comes to a job that runs is told that it runs, and waits") {
  RollCallView roll = view();
  CHECK(roll.take(kStart + 2s, call_of(4), "") ==
        "muster: the job runs on 4 nodes: node1, node2, node3, node4; this node is waiting to "
        "be admitted\n");
  CHECK(roll.take(kStart + 3s, call_of(4, {"node3 (silent)"}), "").find("waiting for node3") !=
        std::string::npos);
}

TEST_CASE("roll call: nodes that meet within the first second say nothing at all") {
  RollCallView roll = view();
  CHECK(roll.take(kStart + 100ms, call_of(1), "").empty());
  CHECK(roll.end().empty());
}

TEST_CASE("roll call: one line for each change and none without one") {
  RollCallView roll = view();
  CHECK(roll.take(kStart + 2s, call_of(1), "") ==
        "muster: 1 of 4 nodes is here: node1; waiting for 3 more\n");
  CHECK(roll.take(kStart + 3s, call_of(1), "").empty());
  CHECK(roll.take(kStart + 4s, call_of(2, {"node3 (silent)"}), "") ==
        "muster: 2 of 4 nodes are here: node1, node2; waiting for node3 (silent)\n");
  CHECK(roll.take(kStart + 5s, call_of(3), "") ==
        "muster: 3 of 4 nodes are here: node1, node2, node3; waiting for 1 more\n");
}

TEST_CASE("roll call: newcomers do not make up for a node without which no round is formed") {
  RollCall call = call_of(4, {"node5 (silent)"});
  call.needed = 3;
  CHECK(describe(call) ==
        "4 nodes are here: node1, node2, node3, node4; waiting for node5 (silent)");
  call = call_of(1, {"node5 (silent)"});
  call.needed = 1;
  CHECK(describe(call) == "1 node is here: node1; waiting for node5 (silent)");
}

TEST_CASE("roll call: why we cannot connect ourselves") {
  RollCallView roll = view();
  CHECK(roll.take(kStart + 2s, RollCall{}, "cannot reach h1:29400: connection refused") ==
        "muster: cannot reach h1:29400: connection refused; trying again\n");
  CHECK(roll.take(kStart + 3s, call_of(2), "") ==
        "muster: 2 of 4 nodes are here: node1, node2; waiting for 2 more\n");
}

TEST_CASE("roll call: who was refused and why, once each") {
  const std::string refused = "node9: another job ('b', this one is 'a')";
  RollCallView roll = view();
  CHECK(roll.take(kStart + 2s, call_of(1, {}, {refused}), "") ==
        "muster: refused node node9: another job ('b', this one is 'a')\n"
        "muster: 1 of 4 nodes is here: node1; waiting for 3 more\n");
  CHECK(roll.take(kStart + 3s, call_of(2, {}, {refused}), "") ==
        "muster: 2 of 4 nodes are here: node1, node2; waiting for 2 more\n");
}

TEST_CASE("roll call: many names are counted") {
  RollCall call = call_of(16);
  call.present = 1000;
  call.needed = 1024;
  CHECK(describe(call) ==
        "1000 of 1024 nodes are here: node1, node2, node3, node4, node5, node6, node7, node8 and "
        "992 more; waiting for 24 more");
}

TEST_CASE("roll call: on a terminal one line is rewritten, fits, and goes away") {
  RollCallView roll = view(true);
  CHECK(roll.take(kStart + 2s, call_of(1), "") ==
        "\r\x1b[Kmuster: 1 of 4 nodes is here: node1; waiting for 3 more");
  CHECK(roll.take(kStart + 3s, call_of(3), "") ==
        "\r\x1b[Kmuster: 3 of 4 nodes are here: node1, node2, node3; wait...");
  CHECK(roll.end() == "\r\x1b[K");
  CHECK(roll.end().empty());
}

TEST_CASE("roll call: on a terminal a refusal stays above the live line") {
  RollCallView roll = view(true);
  CHECK_FALSE(roll.take(kStart + 2s, call_of(1), "").empty());
  CHECK(roll.take(kStart + 3s, call_of(1, {}, {"node9: closed"}), "") ==
        "\r\x1b[Kmuster: refused node node9: closed\n"
        "\r\x1b[Kmuster: 1 of 4 nodes is here: node1; waiting for 3 more");
}

TEST_CASE("roll call: names of other nodes cannot write to our terminal") {
  RollCallView roll = view();
  RollCall call = call_of(1);
  call.names = {"a\x1b[2J\nb"};
  CHECK(roll.take(kStart + 2s, call, "") ==
        "muster: 1 of 4 nodes is here: a[2Jb; waiting for 3 more\n");
}

TEST_CASE(
    "roll call: the error of a time-out lists what is missing, unless nobody can be reached") {
  RollCallView roll = view();
  CHECK(roll.take(kStart + 2s, call_of(1, {"node3 (silent)"}), "") != "");
  CHECK(roll.summary() == "1 of 4 nodes is here: node1; waiting for node3 (silent)");
  CHECK(roll.take(kStart + 3s, RollCall{}, "cannot reach node1: Connection refused") != "");
  CHECK(roll.summary().empty());
}

TEST_CASE("roll call: each time of waiting begins anew") {
  RollCallView roll = view();
  CHECK_FALSE(roll.take(kStart + 2s, call_of(1), "").empty());
  roll.begin(kStart + 60s);
  CHECK(roll.summary().empty());
  CHECK(roll.take(kStart + 60s, call_of(1), "").empty());
  CHECK_FALSE(roll.tick(kStart + 61s).empty());
}

TEST_CASE("roll call: who asked for errors only sees none of it") {
  RollCallStyle style;
  style.silent = true;
  RollCallView roll{style};
  roll.begin(kStart);
  CHECK(roll.take(kStart + 5s, call_of(1), "x").empty());
  CHECK_FALSE(roll.next_deadline());
}

TEST_CASE("roll call: the lines show when the node gives up") {
  RollCallStyle style;
  style.give_up = 600s;
  RollCallView roll{style};
  roll.begin(kStart);
  CHECK(roll.take(kStart + 2s, call_of(1), "") ==
        "muster: 1 of 4 nodes is here: node1; waiting for 3 more; giving up in 598 s\n");
  CHECK(
      roll.tick(kStart + 32s) ==
      "muster: after 32 s: 1 of 4 nodes is here: node1; waiting for 3 more; giving up in 568 s\n");
  CHECK(roll.summary() == "1 of 4 nodes is here: node1; waiting for 3 more");
  CHECK(roll.take(kStart + 40s, call_of(4), "") ==
        "muster: the job runs on 4 nodes: node1, node2, node3, node4; this node is waiting to be "
        "admitted\n");
  CHECK(roll.take(kStart + 50s, call_of(1), "") ==
        "muster: 1 of 4 nodes is here: node1; waiting for 3 more\n");  // a spare keeps waiting
}

TEST_CASE("roll call: in a regroup the time counts from the end of the last worker") {
  RollCallStyle style;
  style.give_up = 600s;
  RollCallView roll{style};
  roll.begin(kStart);
  roll.worker_ended(kStart + 10s);
  CHECK(roll.take(kStart + 11s, RollCall{}, "").empty());  // no news yet
  CHECK(roll.take(kStart + 12s, call_of(1), "") ==
        "muster: 1 of 4 nodes is here: node1; waiting for 3 more; giving up in 598 s\n");
}
