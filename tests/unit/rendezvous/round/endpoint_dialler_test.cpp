// SPDX-License-Identifier: Apache-2.0
// A fresh node with several endpoints tries all of them at the same time.
#include "made_worlds.hpp"
#include "support/catch.hpp"

#include <algorithm>

namespace muster {

using namespace std::chrono_literals;

namespace {

// A node with the endpoints a:1 and b:1 that is looking for a leader.
struct Seeker {
  NodeCore core;
  TimePoint now{1h};
  NodeEffects out;

  Seeker() : core(chosen(), NodeInfo{1, "n", "10.0.0.1", 2, 1, "", -1}, 0) { step(NodeStarted{}); }

  static NodeSettings chosen() {
    NodeSettings made = settings(2, 2);
    made.endpoints = {Endpoint{"a", 1}, Endpoint{"b", 1}};
    return made;
  }

  void step(const NodeEvent& event) {
    out.clear();
    core.step(now, event, out);
  }

  // Advances to the next deadline.
  void tick() {
    now = core.next_deadline().value();
    step(NodeTick{});
  }

  // The last connection requested to this host; 0: none in this step.
  [[nodiscard]] LinkId dialled(const std::string& host) const {
    LinkId link = 0;
    for (const NodeEffect& effect : out) {
      const auto* open = std::get_if<OpenLink>(&effect);
      link = open != nullptr && open->host == host ? open->link : link;
    }
    return link;
  }

  [[nodiscard]] bool closes(LinkId link) const {
    return std::ranges::any_of(out, [&](const NodeEffect& effect) {
      const auto* closed = std::get_if<CloseLink>(&effect);
      return closed != nullptr && closed->link == link;
    });
  }

  [[nodiscard]] LinkId greeted() const {
    for (const NodeEffect& effect : out) {
      const auto* said = std::get_if<SendMessage>(&effect);
      if (said != nullptr && std::holds_alternative<Hello>(*said->message)) {
        return said->link;
      }
    }
    return 0;
  }
};

}  // namespace

TEST_CASE("endpoint dialler: an endpoint that does not answer delays the next one by only 50 ms") {
  Seeker node;
  const LinkId first = node.dialled("a");
  REQUIRE(first != 0);
  CHECK(node.dialled("b") == 0);
  const TimePoint begun = node.now;
  node.tick();
  CHECK(node.now - begun == kDialStagger);
  const LinkId second = node.dialled("b");
  REQUIRE(second != 0);
  node.step(LinkOpened{second});
  CHECK(node.greeted() == second);
  CHECK(node.closes(first));
}

TEST_CASE("endpoint dialler: retries a refused endpoint while another one is silent") {
  Seeker node;
  node.step(LinkClosed{node.dialled("a"), LinkEnd::refused, "Connection refused"});
  CHECK(node.dialled("b") != 0);
  const TimePoint begun = node.now;
  LinkId again = 0;
  while (again == 0) {
    node.tick();
    again = node.dialled("a");
  }
  CHECK(node.now - begun <= kSeekPauseFirst);
  node.step(LinkOpened{again});
  CHECK(node.greeted() == again);
}

TEST_CASE("endpoint dialler: the reasons for all endpoints are reported together") {
  Seeker node;
  node.step(LinkClosed{node.dialled("a"), LinkEnd::refused, "Connection refused"});
  node.step(LinkClosed{node.dialled("b"), LinkEnd::no_name, "no such host 'b'"});
  std::string shown;
  for (int i = 0; i < 100 && shown.empty(); ++i) {
    node.tick();
    for (const NodeEffect& effect : node.out) {
      const auto* show = std::get_if<ShowRollCall>(&effect);
      shown = show != nullptr ? show->trouble : shown;
    }
    for (const char* host : {"a", "b"}) {
      if (const LinkId link = node.dialled(host); link != 0 && shown.empty()) {
        node.step(LinkClosed{link, LinkEnd::refused, "Connection refused"});
      }
    }
  }
  CHECK(shown == "cannot reach a:1: Connection refused; b:1: Connection refused");
}

}  // namespace muster
