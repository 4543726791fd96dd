// SPDX-License-Identifier: Apache-2.0
// A founder that has yielded to another leader and loses it founds the job again, once that leader
// is proven dead.
#include "made_worlds.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <memory>
#include <utility>

namespace muster {
using namespace std::chrono_literals;

namespace {

NodeInfo other_leader() {
  return NodeInfo{77, "other", "10.0.0.9", 9, 1, "", -1};
}

// A founder that has just yielded to another leader, and opens a connection to it.
struct Yielding {
  NodeCore core;
  TimePoint now{1h};
  NodeEffects out;

  explicit Yielding(const NodeSettings& made) : core(made, {1, "a", "10.0.0.1", 2, 1, "", -1}, 0) {
    step(ListenerKnown{"10.0.0.1", 2});
    step(NodeStarted{.hosts = true});
    step(LinkAccepted{2, "10.0.0.9"});
    Hello claim;
    claim.purpose = Purpose::ask;
    claim.terms = made.terms;
    claim.node = other_leader();
    claim.started = RoundId{9, 77};
    claim.coordinates = true;
    hear(2, claim);
    const LinkId asked = opened().link;
    step(LinkOpened{asked});
    hear(asked, Claim{other_leader(), other_leader(), RoundId{9, 77}, true});
    REQUIRE_FALSE(core.coordinator().leads());
  }

  void step(const NodeEvent& event) {
    out.clear();
    core.step(now, event, out);
  }

  void hear(LinkId link, RoundMessage message) {
    step(MessageReceived{link, std::make_shared<const RoundMessage>(std::move(message))});
  }

  // The last connection that it opens in this step.
  [[nodiscard]] OpenLink opened() const {
    OpenLink found;
    for (const NodeEffect& effect : out) {
      const auto* open = std::get_if<OpenLink>(&effect);
      found = open != nullptr ? *open : found;
    }
    return found;
  }

  // Completes the connection that it has opened, and welcomes it there.
  LinkId join() {
    const LinkId link = opened().link;
    step(LinkOpened{link});
    hear(link, Welcome{other_leader(), 9s});
    return link;
  }

  // Ends its connection attempt, and returns the next one.
  OpenLink fail(LinkId link, LinkEnd how) {
    step(LinkClosed{link, how, "failed"});
    while (!core.coordinator().leads() && opened().link == 0) {
      now = std::max(now, *core.next_deadline());
      step(NodeTick{});
    }
    return opened();
  }
};

NodeSettings with_endpoints(std::size_t count) {
  NodeSettings made = settings(2, 3);
  for (std::size_t i = 1; i < count; ++i) {
    made.endpoints.push_back(Endpoint{"fallback", 1});
  }
  return made;
}

}  // namespace

TEST_CASE("founding again: a founder that cannot reach the leader that it yielded to") {
  Yielding founder(with_endpoints(static_cast<std::size_t>(GENERATE(1, 2))));
  OpenLink tried = founder.opened();
  REQUIRE(tried.host == "10.0.0.9");
  for (int i = 0; i < 8; ++i) {
    tried = founder.fail(tried.link, LinkEnd::unreachable);
    CHECK_FALSE(founder.core.coordinator().leads());
    CHECK((tried.host == "10.0.0.9" || tried.host == "fallback"));
  }
  if (tried.host != "10.0.0.9") {
    tried = founder.fail(tried.link, LinkEnd::unreachable);
  }
  REQUIRE(tried.host == "10.0.0.9");
  founder.fail(tried.link, LinkEnd::refused);
  CHECK(founder.core.coordinator().leads());
}

TEST_CASE("founding again: a founder that loses the leader before it knows a round") {
  Yielding founder(settings(2, 3));
  const LinkId joined = founder.join();
  OpenLink tried = founder.fail(joined, LinkEnd::closed);
  const bool is_late = GENERATE(false, true);
  while (is_late && founder.now < TimePoint(1h) + 20s) {
    CHECK(tried.host == "10.0.0.9");
    founder.now += 1s;
    tried = founder.fail(tried.link, LinkEnd::unreachable);
  }
  REQUIRE_FALSE(founder.core.coordinator().leads());
  founder.fail(tried.link, LinkEnd::refused);
  CHECK(founder.core.coordinator().leads());
}

TEST_CASE("founding again: a founder that knows a round waits for its members") {
  Yielding founder(settings(2, 3));
  const LinkId joined = founder.join();
  const auto round = std::make_shared<const Round>(Round{RoundId{9, 77}, 77, 0, {other_leader()}});
  const auto none = std::make_shared<const Round>();
  founder.hear(joined, Rounds{round, none, round});
  OpenLink tried = founder.fail(joined, LinkEnd::closed);
  for (int i = 0; i < 8; ++i) {
    tried = founder.fail(tried.link, LinkEnd::refused);
    CHECK_FALSE(founder.core.coordinator().leads());
  }
}

}  // namespace muster
