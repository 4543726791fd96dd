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

TEST_CASE("roll call: prints nothing in the first second, then the latest state") {
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

TEST_CASE("roll call: repeats every 30 s that a start is waiting") {
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

TEST_CASE("roll call: a spare of a running job prints once that it is waiting") {
  RollCallView roll = view();
  CHECK_FALSE(roll.take(kStart + 2s, call_of(4), "").empty());
  CHECK_FALSE(roll.next_deadline());
}

TEST_CASE("roll call: a newcomer to a running job prints that the job runs and that it waits") {
  RollCallView roll = view();
  CHECK(roll.take(kStart + 2s, call_of(4), "") ==
        "muster: the job is running on 4 nodes: node1, node2, node3, node4; this node is waiting "
        "to be admitted\n");
  CHECK(roll.take(kStart + 3s, call_of(4, {"node3 (silent)"}), "").find("waiting for node3") !=
        std::string::npos);
}

TEST_CASE("roll call: nodes that form a round within the first second print nothing") {
  RollCallView roll = view();
  CHECK(roll.take(kStart + 100ms, call_of(1), "").empty());
  CHECK(roll.end().empty());
}

TEST_CASE("roll call: one line per change, and none without a change") {
  RollCallView roll = view();
  CHECK(roll.take(kStart + 2s, call_of(1), "") ==
        "muster: 1 of 4 nodes is here: node1; waiting for 3 more\n");
  CHECK(roll.take(kStart + 3s, call_of(1), "").empty());
  CHECK(roll.take(kStart + 4s, call_of(2, {"node3 (silent)"}), "") ==
        "muster: 2 of 4 nodes are here: node1, node2; waiting for node3 (silent)\n");
  CHECK(roll.take(kStart + 5s, call_of(3), "") ==
        "muster: 3 of 4 nodes are here: node1, node2, node3; waiting for 1 more\n");
}

TEST_CASE("roll call: newcomers do not replace a node that is required to form a round") {
  RollCall call = call_of(4, {"node5 (silent)"});
  call.needed = 3;
  CHECK(describe(call) ==
        "4 nodes are here: node1, node2, node3, node4; waiting for node5 (silent)");
  call = call_of(1, {"node5 (silent)"});
  call.needed = 1;
  CHECK(describe(call) == "1 node is here: node1; waiting for node5 (silent)");
}

TEST_CASE("roll call: prints why this node cannot connect") {
  RollCallView roll = view();
  CHECK(roll.take(kStart + 2s, RollCall{}, "cannot reach h1:29400: connection refused") ==
        "muster: cannot reach h1:29400: connection refused; trying again\n");
  CHECK(roll.take(kStart + 3s, call_of(2), "") ==
        "muster: 2 of 4 nodes are here: node1, node2; waiting for 2 more\n");
}

TEST_CASE("roll call: prints each refused node and the reason once") {
  const std::string refused = "node9: another job ('b', this one is 'a')";
  RollCallView roll = view();
  CHECK(roll.take(kStart + 2s, call_of(1, {}, {refused}), "") ==
        "muster: refused node node9: another job ('b', this one is 'a')\n"
        "muster: 1 of 4 nodes is here: node1; waiting for 3 more\n");
  CHECK(roll.take(kStart + 3s, call_of(2, {}, {refused}), "") ==
        "muster: 2 of 4 nodes are here: node1, node2; waiting for 2 more\n");
}

TEST_CASE("roll call: counts the names that do not fit") {
  RollCall call = call_of(16);
  call.present = 1000;
  call.needed = 1024;
  CHECK(describe(call) ==
        "1000 of 1024 nodes are here: node1, node2, node3, node4, node5, node6, node7, node8 and "
        "992 more; waiting for 24 more");
}

TEST_CASE(
    "roll call: on a terminal it rewrites one line, truncates it to the width and clears it") {
  RollCallView roll = view(true);
  CHECK(roll.take(kStart + 2s, call_of(1), "") ==
        "\r\x1b[Kmuster: 1 of 4 nodes is here: node1; waiting for 3 more");
  CHECK(roll.take(kStart + 3s, call_of(3), "") ==
        "\r\x1b[Kmuster: 3 of 4 nodes are here: node1, node2, node3; wait...");
  CHECK(roll.end() == "\r\x1b[K");
  CHECK(roll.end().empty());
}

TEST_CASE("roll call: on a terminal a refusal stays above the status line") {
  RollCallView roll = view(true);
  CHECK_FALSE(roll.take(kStart + 2s, call_of(1), "").empty());
  CHECK(roll.take(kStart + 3s, call_of(1, {}, {"node9: closed"}), "") ==
        "\r\x1b[Kmuster: refused node node9: closed\n"
        "\r\x1b[Kmuster: 1 of 4 nodes is here: node1; waiting for 3 more");
}

TEST_CASE("roll call: other nodes' names cannot contain terminal control characters") {
  RollCallView roll = view();
  RollCall call = call_of(1);
  call.names = {"a\x1b[2J\nb"};
  CHECK(roll.take(kStart + 2s, call, "") ==
        "muster: 1 of 4 nodes is here: a[2Jb; waiting for 3 more\n");
}

TEST_CASE("roll call: a timeout error lists the missing nodes, unless no node can be reached") {
  RollCallView roll = view();
  CHECK(roll.take(kStart + 2s, call_of(1, {"node3 (silent)"}), "") != "");
  CHECK(roll.summary() == "1 of 4 nodes is here: node1; waiting for node3 (silent)");
  CHECK(roll.take(kStart + 3s, RollCall{}, "cannot reach node1: Connection refused") != "");
  CHECK(roll.summary().empty());
}

TEST_CASE("roll call: each wait begins anew") {
  RollCallView roll = view();
  CHECK_FALSE(roll.take(kStart + 2s, call_of(1), "").empty());
  roll.begin(kStart + 60s);
  CHECK(roll.summary().empty());
  CHECK(roll.take(kStart + 60s, call_of(1), "").empty());
  CHECK_FALSE(roll.tick(kStart + 61s).empty());
}

TEST_CASE("roll call: prints nothing at log level error") {
  RollCallStyle style;
  style.silent = true;
  RollCallView roll{style};
  roll.begin(kStart);
  CHECK(roll.take(kStart + 5s, call_of(1), "x").empty());
  CHECK_FALSE(roll.next_deadline());
}

TEST_CASE("roll call: the lines show when the node will time out") {
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
        "muster: the job is running on 4 nodes: node1, node2, node3, node4; this node is waiting "
        "to be admitted\n");
  CHECK(roll.take(kStart + 50s, call_of(1), "") ==
        "muster: 1 of 4 nodes is here: node1; waiting for 3 more\n");  // a spare keeps waiting
}

TEST_CASE("roll call: in a regroup the time counts from the exit of the last worker") {
  RollCallStyle style;
  style.give_up = 600s;
  RollCallView roll{style};
  roll.begin(kStart);
  roll.worker_ended(kStart + 10s);
  CHECK(roll.take(kStart + 11s, RollCall{}, "").empty());  // no news yet
  CHECK(roll.take(kStart + 12s, call_of(1), "") ==
        "muster: 1 of 4 nodes is here: node1; waiting for 3 more; giving up in 598 s\n");
}
