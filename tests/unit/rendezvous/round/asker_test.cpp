// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/round/questions/asker.hpp"

#include "support/catch.hpp"

#include <functional>
#include <vector>

namespace muster {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kStart = TimePoint(std::chrono::hours(1));

NodeInfo node(NodeId id) {
  NodeInfo made;
  made.id = id;
  made.address = "10.0.0.1";
  made.port = 2;
  return made;
}

// The links opened by a tick.
std::vector<LinkId> opens(Asker& asker, TimePoint now) {
  NodeEffects out;
  asker.tick(now, out);
  std::vector<LinkId> links;
  for (const NodeEffect& effect : out) {
    if (const auto* open = std::get_if<OpenLink>(&effect)) {
      links.push_back(open->link);
    }
  }
  return links;
}

RoundMessage claim_of(NodeId id) {
  Claim claim;
  claim.node = node(id);
  return claim;
}

}  // namespace

TEST_CASE("asker: a refused connection proves that the node is dead") {
  Asker asker(3);
  asker.want(kStart, node(7));
  REQUIRE(opens(asker, kStart) == std::vector<LinkId>{3});
  const auto result = asker.ended(kStart, 3, LinkEnd::refused);
  REQUIRE(result);
  CHECK(result->what == AskResult::What::gone);
  CHECK(result->node == 7);
}

TEST_CASE("asker: no answer proves nothing, and the node is queried again") {
  Asker asker(3);
  asker.want(kStart, node(7));
  opens(asker, kStart);
  const auto result = asker.ended(kStart, 3, LinkEnd::unreachable);
  REQUIRE(result);
  CHECK(result->what == AskResult::What::silent);
  CHECK(opens(asker, kStart + kAskInterval - 1ns).empty());
  CHECK(opens(asker, kStart + kAskInterval) == std::vector<LinkId>{7});
}

TEST_CASE("asker: a silently closed connection means that a guard is working: soon queried again") {
  Asker asker(3);
  asker.want(kStart, node(7));
  opens(asker, kStart);
  CHECK_FALSE(asker.ended(kStart, 3, LinkEnd::closed));
  CHECK(asker.next_deadline() == kStart + kAskSoonFirst);
}

TEST_CASE(
    "asker: another agent at the address proves the node dead, the node itself that it lives") {
  Asker asker(3);
  NodeEffects out;
  asker.want(kStart, node(7));
  opens(asker, kStart);
  CHECK(asker.received(kStart, 3, claim_of(7), out)->what == AskResult::What::alive);
  opens(asker, kStart + kAskInterval);
  CHECK(asker.received(kStart, 7, claim_of(8), out)->what == AskResult::What::gone);
}

TEST_CASE("asker: a node that accepts the query but does not answer gets a new connection") {
  Asker asker(3);
  asker.want(kStart, node(7));
  opens(asker, kStart);
  const TimePoint later = kStart + 2 * kAskTimeout;
  CHECK(asker.next_deadline() == later);
  CHECK(opens(asker, later).empty());
  CHECK_FALSE(asker.owns(3));
  CHECK(opens(asker, later + kAskInterval) == std::vector<LinkId>{7});
}

TEST_CASE("asker: a refused endpoint says nothing about a node") {
  Asker asker(3);
  asker.want_endpoint(kStart, 0, Endpoint{"h", 1});
  opens(asker, kStart);
  CHECK(asker.ended(kStart, 3, LinkEnd::refused)->what == AskResult::What::silent);
}

TEST_CASE("asker: an endpoint that refuses is queried again soon, less often as time passes") {
  Asker asker(3);
  asker.want_endpoint(kStart, 0, Endpoint{"h", 1});
  TimePoint now = kStart;
  // The pause after the current query ends in this way.
  const auto pause_after = [&](LinkEnd how) {
    const auto links = opens(asker, now);
    REQUIRE(links.size() == 1);
    static_cast<void>(asker.ended(now, links.front(), how));
    const Duration pause = *asker.next_deadline() - now;
    now += pause;
    return pause;
  };
  CHECK(pause_after(LinkEnd::refused) == kAskRefusedFirst);
  CHECK(pause_after(LinkEnd::refused) == kAskRefusedFirst);
  now = kStart + 100s;
  CHECK(pause_after(LinkEnd::refused) == 100ms);
  now = kStart + 1h;
  CHECK(pause_after(LinkEnd::refused) == kAskRefusedMost);
  // A silent machine, or a guard that is still working, is not queried more often than before.
  CHECK(pause_after(LinkEnd::unreachable) == kAskInterval);
  CHECK(pause_after(LinkEnd::refused) == kAskRefusedFirst);
  now += 100s;
  CHECK(pause_after(LinkEnd::closed) == kAskInterval);
  CHECK(pause_after(LinkEnd::refused) == kAskRefusedFirst);
}

TEST_CASE("asker: an endpoint that has answered and then refuses is queried again soon") {
  Asker asker(3);
  NodeEffects out;
  asker.want_endpoint(kStart, 0, Endpoint{"h", 1});
  opens(asker, kStart);
  static_cast<void>(asker.ended(kStart, 3, LinkEnd::refused));
  TimePoint now = kStart + 100s;
  opens(asker, now);
  CHECK(asker.received(now, 7, claim_of(8), out));
  CHECK(asker.next_deadline() == now + kAskInterval);
  now += kAskInterval;
  opens(asker, now);
  static_cast<void>(asker.ended(now, 11, LinkEnd::refused));
  CHECK(asker.next_deadline() == now + kAskRefusedFirst);
}

TEST_CASE("asker: a one-time query is forgotten with the answer, or without one") {
  const std::vector<std::function<void(Asker&, NodeEffects&)>> ends{
      [](Asker& asker, NodeEffects& out) {
        CHECK(asker.received(kStart, 3, claim_of(7), out)->what == AskResult::What::alive);
      },
      [](Asker& asker, NodeEffects& /*out*/) {
        CHECK(asker.ended(kStart, 3, LinkEnd::refused)->what == AskResult::What::gone);
      },
      [](Asker& asker, NodeEffects& /*out*/) {
        CHECK(asker.ended(kStart, 3, LinkEnd::unreachable)->what == AskResult::What::silent);
      },
      [](Asker& asker, NodeEffects& /*out*/) {
        CHECK_FALSE(asker.ended(kStart, 3, LinkEnd::closed));
      },
      [](Asker& asker, NodeEffects& out) { asker.tick(kStart + 2 * kAskTimeout, out); }};
  for (const auto& end : ends) {
    Asker asker(3);
    NodeEffects out;
    asker.want_once(kStart, node(7));
    REQUIRE(opens(asker, kStart) == std::vector<LinkId>{3});
    CHECK(asker.wants(7));
    end(asker, out);
    CHECK_FALSE(asker.wants(7));
    CHECK_FALSE(asker.owns(3));
    CHECK_FALSE(asker.next_deadline());
  }
}

TEST_CASE("asker: a one-time query does not end an existing permanent query") {
  Asker asker(3);
  NodeEffects out;
  asker.want_once(kStart, node(7));
  asker.want(kStart, node(7));
  asker.want_once(kStart, node(7));
  REQUIRE(opens(asker, kStart).size() == 1);
  CHECK(asker.received(kStart, 3, claim_of(7), out));
  CHECK(asker.wants(7));
}

TEST_CASE("asker: limits concurrent one-time queries, but not those to members") {
  Asker asker(3);
  for (NodeId id = 1; id <= 2 * kAskOnceMax; ++id) {
    asker.want_once(kStart, node(id));
  }
  asker.want(kStart, node(1000));
  CHECK(opens(asker, kStart).size() == kAskOnceMax + 1);
  CHECK(asker.wants(1000));
}

TEST_CASE("asker: limits the number of connections at a time; the other queries follow") {
  Asker asker(3);
  for (NodeId id = 1; id <= kAsksMax + 1; ++id) {
    asker.want(kStart, node(id));
  }
  CHECK(opens(asker, kStart).size() == kAsksMax);
  CHECK(opens(asker, kStart).empty());
  static_cast<void>(asker.ended(kStart, 3, LinkEnd::refused));
  CHECK(opens(asker, kStart).size() == 1);
}

}  // namespace muster
