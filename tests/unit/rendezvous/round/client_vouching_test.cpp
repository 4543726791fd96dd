// SPDX-License-Identifier: Apache-2.0
// Which nodes are asked for the owner of a client of the workers' store, how the answers are
// combined, and what happens if one is missing.
#include "rendezvous/round/questions/client_vouching.hpp"

#include "made_worlds.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <string>

namespace muster {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t kLeader = 0;

// Three nodes: n0 leads, and n1 has the first rank and therefore the store.
constexpr std::size_t kHost = 1;

SmallWorld world_of_three(int restarts = 0) {
  NodeSettings made = settings(2, 3, restarts);
  made.rank_order = {"n1", "n0", "n2"};
  SmallWorld world(made);
  world.add("n0", true);
  world.add("n1");
  world.add("n2");
  REQUIRE(ranks(world) == std::vector{1, 0, 2});
  return world;
}

void connect(SmallWorld& world, std::uint64_t client, const std::string& host) {
  world.feed(kHost, VouchWanted{client, {host, 4000, "10.0.0.2", 7}});
}

std::string answer(const SmallWorld& world, std::uint64_t client) {
  const auto found = world.nodes[kHost].vouched.find(client);
  return found == world.nodes[kHost].vouched.end() ? "nothing yet" : found->second;
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "client vouching: the coordinator passes the query to the node that has the client's address") {
  SmallWorld world = world_of_three();
  connect(world, 1, "10.0.0.3");
  CHECK(answer(world, 1).empty());
  CHECK(world.nodes[2].asked_for_owner == 1);
  CHECK(world.nodes[kLeader].asked_for_owner == 0);

  connect(world, 2, "10.0.0.1");  // the coordinator itself
  CHECK(answer(world, 2).empty());
  CHECK(world.nodes[kLeader].asked_for_owner == 1);
}

TEST_CASE("client vouching: the coordinator may host the store itself") {
  SmallWorld world = running_world(2, 2);
  world.feed(0, VouchWanted{1, {"10.0.0.2", 4000, "10.0.0.1", 7}});
  CHECK(world.nodes[0].vouched.at(1).empty());
  world.feed(0, VouchWanted{2, {"10.0.0.99", 4000, "10.0.0.1", 7}});
  CHECK(says(world.nodes[0].vouched.at(2), "no node of this job has the address 10.0.0.99"));
}

TEST_CASE("client vouching: each refusal names the owner or a remedy") {
  SmallWorld world = world_of_three();
  const auto refused = [&](VouchAnswer owner) {
    static std::uint64_t client = 10;
    world.nodes[2].owner = owner;
    connect(world, ++client, "10.0.0.3");
    return answer(world, client);
  };
  CHECK(refused(VouchAnswer::other_user) == "it belongs to another user on node 'n2'");
  CHECK(refused(VouchAnswer::other_process) ==
        "it belongs to a process on node 'n2' that is not part of this job");
  CHECK(refused(VouchAnswer::no_socket) ==
        "node 'n2' has no such connection; if addresses are translated between the nodes, use "
        "--store-via=proxy");
}

TEST_CASE(
    "client vouching: if a kernel cannot tell, the client is admitted with one warning per node") {
  SmallWorld world = world_of_three();
  world.nodes[2].owner = VouchAnswer::cannot_tell;
  const auto lines = [&] {
    return std::ranges::count_if(world.nodes[kHost].said, [](const std::string& line) {
      return says(line, "the kernel of node 'n2' does not report");
    });
  };
  connect(world, 1, "10.0.0.3");
  connect(world, 2, "10.0.0.3");
  CHECK(answer(world, 1).empty());
  CHECK(answer(world, 2).empty());
  CHECK(lines() == 1);
}

TEST_CASE("client vouching: a worker may use any address of its host") {
  SmallWorld world = world_of_three();
  for (std::uint64_t number = 1; number <= 3; ++number) {
    connect(world, number, "fd00::" + std::to_string(number));
    CHECK(answer(world, number).empty());
  }
  CHECK(world.nodes[kLeader].asked_for_owner == 1);
  CHECK(world.nodes[2].asked_for_owner == 1);

  world.kill(kLeader);
  world.pass(30s);
  connect(world, 4, "fd00::3");  // the next coordinator knows the address, too
  CHECK(answer(world, 4).empty());
}

TEST_CASE("client vouching: an address that no member has is refused at once") {
  SmallWorld world = world_of_three();
  connect(world, 1, "192.0.2.7");
  CHECK(says(answer(world, 1), "no node of this job has the address 192.0.2.7"));
  CHECK(says(answer(world, 1), "--store-via=proxy"));
}

TEST_CASE("client vouching: only the node that hosts the store may ask") {
  SmallWorld world = world_of_three();
  world.feed(2, VouchWanted{1, {"10.0.0.1", 4000, "10.0.0.3", 7}});
  CHECK(world.nodes[kLeader].asked_for_owner == 0);
  CHECK(world.nodes[2].vouched.empty());
}

TEST_CASE("client vouching: a query without an answer is repeated, and fails after a lease") {
  SmallWorld world = world_of_three();
  world.nodes[2].owner.reset();
  connect(world, 1, "10.0.0.3");
  CHECK(answer(world, 1) == "nothing yet");
  world.pass(4s);
  CHECK(world.nodes[2].asked_for_owner >= 3);
  CHECK(answer(world, 1) == "nothing yet");
  world.pass(6s);
  CHECK(says(answer(world, 1),
             "the node with the address 10.0.0.3 did not report the connection's owner in time"));
}

TEST_CASE("client vouching: a slow answer counts, even if it follows a repeated query") {
  SmallWorld world = world_of_three();
  world.nodes[2].owner.reset();
  connect(world, 1, "10.0.0.3");
  world.nodes[2].owner = VouchAnswer::ours;
  world.pass(2s);
  CHECK(answer(world, 1).empty());
}

TEST_CASE(
    "client vouching: a node that lost its coordinator repeats the query after reconnecting") {
  SmallWorld world = world_of_three();
  world.reset(kHost);
  connect(world, 1, "10.0.0.3");
  world.pass(1s);
  CHECK(answer(world, 1).empty());
}

TEST_CASE("client vouching: a node that lost its connection answers after reconnecting") {
  SmallWorld world = world_of_three();
  world.cut(2);
  world.reset(2);
  connect(world, 1, "10.0.0.3");
  CHECK(answer(world, 1) == "nothing yet");
  world.heal(2);
  world.pass(3s);
  CHECK(answer(world, 1).empty());
  CHECK(ranks(world) == std::vector{1, 0, 2});
}

TEST_CASE("client vouching: after the coordinator's death the next one forwards queries") {
  SmallWorld world = world_of_three();
  world.kill(kLeader);
  world.pass(30s);
  REQUIRE(ranks(world) == std::vector{-1, 0, 1});
  connect(world, 1, "10.0.0.3");
  CHECK(answer(world, 1).empty());
  connect(world, 2, "10.0.0.1");
  CHECK(says(answer(world, 2), "no node of this job has the address"));
}

// -- ClientVouching alone
// ----------------------------------------------------------------------------

namespace {

struct OneAsker {
  ClientVouching vouching{77, 9s};
  TimePoint now{1h};
  NodeEffects out;

  std::uint64_t ask(std::uint64_t client) {
    out.clear();
    vouching.want(now, VouchWanted{client, {"10.0.0.3", 4000, "10.0.0.2", 7}}, LinkId{5}, out);
    const auto* sent = std::get_if<SendMessage>(&out.at(0));
    REQUIRE(sent != nullptr);
    return std::get<Vouch>(*sent->message).sequence;
  }

  const VouchKnown* hear(std::uint64_t sequence, std::uint32_t asked, VouchAnswer answer) {
    out.clear();
    vouching.take(Vouched{77, sequence, asked, answer, "n2"}, out);
    return out.empty() ? nullptr : std::get_if<VouchKnown>(&out.back());
  }
};

}  // namespace

TEST_CASE(
    "client vouching: if several nodes have one address, one yes is enough, and one no is not") {
  OneAsker asker;
  const auto first = asker.ask(1);
  CHECK(asker.hear(first, 2, VouchAnswer::no_socket) == nullptr);
  const auto* known = asker.hear(first, 2, VouchAnswer::ours);
  REQUIRE(known != nullptr);
  CHECK(!known->refused);

  const auto second = asker.ask(2);
  CHECK(asker.hear(second, 2, VouchAnswer::other_user) == nullptr);
  known = asker.hear(second, 2, VouchAnswer::no_socket);
  REQUIRE(known != nullptr);
  REQUIRE(known->refused);
  CHECK(known->refused->message == "it belongs to another user on node 'n2'");
  CHECK(asker.vouching.size() == 0);
}

TEST_CASE("client vouching: answers to other or old queries do not count") {
  OneAsker asker;
  const auto first = asker.ask(1);
  CHECK(asker.hear(first + 1, 1, VouchAnswer::ours) == nullptr);
  asker.out.clear();
  asker.vouching.take(Vouched{78, first, 1, VouchAnswer::ours, "n2"}, asker.out);
  CHECK(asker.out.empty());
  asker.vouching.ask_all(asker.now, LinkId{6}, asker.out);
  CHECK(asker.hear(first, 1, VouchAnswer::ours) == nullptr);
  CHECK(asker.vouching.size() == 1);
}

TEST_CASE("client vouching: too many concurrent queries are refused") {
  OneAsker asker;
  for (std::uint64_t client = 1; client <= kVouchesMax; ++client) {
    asker.vouching.want(asker.now, VouchWanted{client, {}}, std::nullopt, asker.out);
  }
  CHECK(asker.out.empty());
  asker.vouching.want(asker.now, VouchWanted{kVouchesMax + 1, {}}, std::nullopt, asker.out);
  REQUIRE(asker.out.size() == 1);
  CHECK(std::get<VouchKnown>(asker.out[0]).refused);
  CHECK(asker.vouching.size() == kVouchesMax);
}

}  // namespace muster
