// SPDX-License-Identifier: Apache-2.0
// Two nodes with the same place, and endpoints that belong to another job.
#include "made_worlds.hpp"
#include "support/catch.hpp"

namespace muster {

using namespace std::chrono_literals;

namespace {

NodeInfo numbered(NodeId id, std::int32_t place) {
  const std::string number = std::to_string(id);
  return NodeInfo{id, "n" + number, "10.0.0." + number, 9, 1, "", place};
}

NodeSettings numbering(const std::string& backend = "c10d", bool by_platform = true) {
  NodeSettings made = settings(3, 3);
  made.terms.backend = backend;
  made.nodes_are_numbered = by_platform;
  return made;
}

// One node and its messages to others.
struct Alone {
  NodeCore core;
  TimePoint now{1h};
  NodeEffects out;

  Alone(NodeSettings chosen, const NodeInfo& self, bool hosts) : core(std::move(chosen), self, 0) {
    step(ListenerKnown{self.address, self.port});
    step(NodeStarted{hosts});
  }

  void step(const NodeEvent& event) {
    out.clear();
    core.step(now, event, out);
  }

  void hear(LinkId link, RoundMessage message) {
    step(MessageReceived{link, std::make_shared<const RoundMessage>(std::move(message))});
  }

  // Why a new node was refused; empty if it was accepted.
  std::string greet(LinkId link, const NodeSettings& theirs, const NodeInfo& node) {
    step(LinkAccepted{link, node.address});
    Hello hello;
    hello.terms = theirs.terms;
    hello.node = node;
    hello.waited = true;
    hear(link, hello);
    for (const NodeEffect& effect : out) {
      const auto* said = std::get_if<SendMessage>(&effect);
      const auto* refuse = said != nullptr ? std::get_if<Refuse>(&*said->message) : nullptr;
      if (refuse != nullptr && said->link == link) {
        return refuse->text;
      }
    }
    return "";
  }

  template <class Effect>
  [[nodiscard]] const Effect* asked() const {
    for (const NodeEffect& effect : out) {
      if (const auto* found = std::get_if<Effect>(&effect)) {
        return found;
      }
    }
    return nullptr;
  }
};

// Node 2 stays alive meanwhile.
std::string greeted_as(const NodeSettings& chosen, std::int32_t first, std::int32_t second) {
  Alone host(chosen, numbered(1, 0), true);
  CHECK(host.greet(2, chosen, numbered(2, first)).empty());
  const std::string at_once = host.greet(4, chosen, numbered(3, second));
  host.now += 1s;
  host.hear(2, Beat{1, 0});
  return at_once.empty() ? host.greet(6, chosen, numbered(3, second)) : at_once;
}

// A node that is looking for a job at these endpoints; the first one has just refused it.
Alone refused_by_first(const std::vector<Endpoint>& endpoints, Refusal why) {
  NodeSettings chosen = settings(2, 2);
  chosen.endpoints = endpoints;
  Alone node(chosen, numbered(2, -1), false);
  const LinkId link = node.asked<OpenLink>()->link;
  node.step(LinkOpened{link});
  node.hear(link, Refuse{why, "text of its own"});
  return node;
}

}  // namespace

TEST_CASE("refusals: a node with another token ends the wait of nodes that lack it") {
  Alone host(settings(2, 3), numbered(1, -1), true);
  host.step(TokenRefused{"10.0.0.2", "another token: share it"});
  REQUIRE(host.asked<EndClosed>() != nullptr);
  CHECK(host.asked<EndClosed>()->close.exit_code == 2);
  CHECK(host.asked<EndClosed>()->close.reason ==
        "refused node at 10.0.0.2: another token: share it");
}

TEST_CASE("refusals: another token ends no wait if the job is complete without that node") {
  Alone alone(settings(1, 2), numbered(1, -1), true);
  alone.step(TokenRefused{"10.0.0.2", "another token"});
  CHECK(alone.asked<EndClosed>() == nullptr);
  Alone host(settings(2, 3), numbered(1, -1), true);
  CHECK(host.greet(2, settings(2, 3), numbered(2, -1)).empty());
  host.step(TokenRefused{"10.0.0.3", "another token"});
  CHECK(host.asked<EndClosed>() == nullptr);
}

TEST_CASE("refusals: after the first round a stranger's token ends nothing") {
  SmallWorld world(settings(2, 2));
  world.add("n1", true);
  world.add("n2");
  world.pass(1s);
  REQUIRE(world.nodes[0].runs == 1);
  world.feed(0, TokenRefused{"10.0.0.9", "another token"});
  world.kill(1);
  world.pass(1s);
  REQUIRE_FALSE(world.nodes[0].running);
  world.feed(0, TokenRefused{"10.0.0.9", "another token"});
  CHECK(world.nodes[0].ended.empty());
}

TEST_CASE("refusals: two nodes with the same platform number get an error that names both") {
  const std::string expected =
      "--node-rank=1 is taken by 'n2' (10.0.0.2), and 'n3' (10.0.0.3) requests it too; each node "
      "needs a different one";
  CHECK(greeted_as(numbering(), 1, 1) == expected);
  CHECK(greeted_as(numbering("static", false), 1, 1) == expected);
}

TEST_CASE("refusals: different numbers, and numbers from the user, do not conflict") {
  CHECK(greeted_as(numbering(), 1, 2).empty());
  CHECK(greeted_as(numbering(), -1, -1).empty());
  CHECK(greeted_as(numbering("c10d", false), 1, 1).empty());
}

TEST_CASE("refusals: both sides report the same difference") {
  const NodeSettings ours = settings(2, 2);
  Alone host(ours, numbered(1, -1), true);
  CHECK(host.greet(2, settings(2, 3), numbered(2, -1)) ==
        "--nnodes is 2:2 in the job and 2:3 on the refused node; all nodes need the same command "
        "line");
}

TEST_CASE(
    "refusals: another program is refused, unless a side compares nothing or has another role") {
  NodeSettings ours = settings(2, 2);
  ours.terms.program = 7;
  ours.terms.command = "a.py";
  NodeSettings theirs = ours;
  theirs.terms.program = 8;
  theirs.terms.command = "b.py --lr=1";
  Alone host(ours, numbered(1, -1), true);
  CHECK(host.greet(2, theirs, numbered(2, -1)) ==
        "the job runs 'a.py', but the refused node runs 'b.py --lr=1'; for a separate job use a "
        "different --rdzv-id and port; to run both programs in one job, set "
        "--rdzv-conf=any_program=true on all nodes");
  NodeInfo reader = numbered(3, -1);
  reader.role = "reader";
  CHECK(host.greet(4, theirs, reader).empty());
  theirs.terms.program = 0;
  CHECK(host.greet(6, theirs, numbered(4, -1)).empty());
}

TEST_CASE("refusals: the same program with other options ends the wait of nodes that lack it") {
  NodeSettings ours = settings(2, 2);
  ours.terms.program = 7;
  NodeSettings theirs = ours;
  theirs.terms.nodes_max = 3;
  Alone host(ours, numbered(1, -1), true);
  const std::string why = host.greet(2, theirs, numbered(2, -1));
  CHECK_FALSE(why.empty());
  REQUIRE(host.asked<EndClosed>() != nullptr);
  CHECK(host.asked<EndClosed>()->close.exit_code == 2);
  CHECK(host.asked<EndClosed>()->close.reason == "refused node 'n2': " + why);
}

TEST_CASE("refusals: another program, another job or a taken node rank ends no wait") {
  NodeSettings ours = numbering("static");
  ours.terms.program = 7;
  Alone host(ours, numbered(1, 0), true);
  CHECK_FALSE(host.greet(2, ours, numbered(2, 0)).empty());
  CHECK(host.asked<EndClosed>() == nullptr);
  NodeSettings theirs = ours;
  theirs.terms.nodes_max = 2;
  theirs.terms.program = 8;
  CHECK_FALSE(host.greet(4, theirs, numbered(3, 1)).empty());
  CHECK(host.asked<EndClosed>() == nullptr);
  theirs.terms.program = 0;
  CHECK_FALSE(host.greet(6, theirs, numbered(4, 1)).empty());
  CHECK(host.asked<EndClosed>() == nullptr);
  theirs = ours;
  theirs.terms.job_id = "another";
  CHECK_FALSE(host.greet(8, theirs, numbered(5, 1)).empty());
  CHECK(host.asked<EndClosed>() == nullptr);
}

TEST_CASE("refusals: a node may replace a silent one, or itself") {
  Alone host(numbering(), numbered(1, 0), true);
  CHECK(host.greet(2, numbering(), numbered(2, 1)).empty());
  CHECK(host.greet(4, numbering(), numbered(2, 1)).empty());
  host.now += 5s;
  CHECK(host.greet(6, numbering(), numbered(3, 1)).empty());
}

TEST_CASE(
    "refusals: a request for the node rank of a silent node is neither accepted nor refused yet") {
  Alone host(numbering(), numbered(1, 0), true);
  CHECK(host.greet(2, numbering(), numbered(2, 1)).empty());
  for (const LinkId link : {4U, 6U, 8U}) {
    host.now += 1s;
    CHECK(host.greet(link, numbering(), numbered(3, 1)).empty());
    REQUIRE(host.asked<CloseLink>() != nullptr);
    CHECK(host.asked<CloseLink>()->link == link);
  }
  host.now += 2s;  // more than half a lease since the last message from the other one
  CHECK(host.greet(10, numbering(), numbered(3, 1)).empty());
  CHECK(host.asked<CloseLink>() == nullptr);
}

TEST_CASE("refusals: an accepted node that lost its rank to the former holder is doubted again") {
  Alone host(numbering(), numbered(1, 0), true);
  CHECK(host.greet(2, numbering(), numbered(2, 1)).empty());
  CHECK(host.greet(4, numbering(), numbered(3, 1)).empty());
  host.now += 5s;  // node 2 is silent
  CHECK(host.greet(6, numbering(), numbered(3, 1)).empty());
  REQUIRE(host.asked<CloseLink>() == nullptr);
  host.step(LinkClosed{6, LinkEnd::closed, "closed"});
  host.now += 1s;
  CHECK(host.greet(8, numbering(), numbered(2, 1)).empty());
  REQUIRE(host.asked<CloseLink>() != nullptr);
  CHECK(host.asked<CloseLink>()->link == 2);  // its old connection
  host.now += 1s;
  CHECK(host.greet(10, numbering(), numbered(3, 1)).empty());
  REQUIRE(host.asked<CloseLink>() != nullptr);
  CHECK(host.asked<CloseLink>()->link == 10);
  host.now += 1s;
  host.hear(8, Beat{1, 0});
  CHECK_FALSE(host.greet(12, numbering(), numbered(3, 1)).empty());
}

TEST_CASE("refusals: skips a candidate endpoint that belongs to another job") {
  const Alone node =
      refused_by_first({Endpoint{"head", 1}, Endpoint{"head", 2}}, Refusal::wrong_job);
  REQUIRE(node.asked<OpenLink>() != nullptr);
  CHECK(node.asked<OpenLink>()->port == 2);
  CHECK(node.asked<EndFailed>() == nullptr);
}

TEST_CASE("refusals: tries all candidates again, and reports what it found") {
  Alone node = refused_by_first({Endpoint{"head", 1}, Endpoint{"head", 2}}, Refusal::wrong_job);
  const LinkId link = node.asked<OpenLink>()->link;
  node.step(LinkOpened{link});
  node.hear(link, Refuse{Refusal::wrong_job, "text"});
  CHECK(node.asked<EndFailed>() == nullptr);
  std::set<std::uint16_t> ports;  // in a random order
  for (int i = 0; i < 2; ++i) {
    node.now = *node.core.next_deadline();
    node.step(NodeTick{});
    REQUIRE(node.asked<OpenLink>() != nullptr);
    ports.insert(node.asked<OpenLink>()->port);
  }
  CHECK(ports == std::set<std::uint16_t>{1, 2});
  node.step(LinkClosed{node.asked<OpenLink>()->link, LinkEnd::refused, "nobody there"});
  node.now += 600s;
  node.step(NodeTick{});
  REQUIRE(node.asked<EndFailed>() != nullptr);
}

TEST_CASE("refusals: fails if the only endpoint, or one of several hosts, belongs to another job") {
  const std::vector<std::vector<Endpoint>> lists{{Endpoint{"head", 1}},
                                                 {Endpoint{"head", 1}, Endpoint{"other", 1}}};
  for (const auto& endpoints : lists) {
    const Alone node = refused_by_first(endpoints, Refusal::wrong_job);
    REQUIRE(node.asked<EndFailed>() != nullptr);
    CHECK(node.asked<EndFailed>()->error.code == Errc::usage);
  }
  const Alone node =
      refused_by_first({Endpoint{"head", 1}, Endpoint{"head", 2}}, Refusal::wrong_terms);
  CHECK(node.asked<EndFailed>() != nullptr);
}

}  // namespace muster
