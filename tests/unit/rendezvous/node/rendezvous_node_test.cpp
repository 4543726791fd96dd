// SPDX-License-Identifier: Apache-2.0
// Real sockets, one process: nodes form a round, lose each other and form one again.
#include "rendezvous/client/blocking_store.hpp"
#include "test_node.hpp"
#include "unit/rendezvous/server/admission_fixture.hpp"

#include <algorithm>
#include <future>
#include <set>

using namespace muster;
using namespace muster::testing;
using namespace std::chrono_literals;

namespace {

using Nodes = std::vector<std::unique_ptr<TestNode>>;

bool all_in_world_of(const Nodes& nodes, std::size_t world) {
  return std::ranges::all_of(nodes, [world](const auto& node) { return node->world() == world; });
}

// Each rank occurs once, and all nodes agree on the store's address.
void check_agreement(const Nodes& nodes) {
  std::set<std::int32_t> ranks;
  for (const auto& node : nodes) {
    ranks.insert(node->round->group_rank);
    CHECK(*node->round->round == *nodes.front()->round->round);
    CHECK(node->round->master_addr == "127.0.0.1");
    CHECK(node->round->master_port == 12345);
  }
  CHECK(ranks.size() == nodes.size());
}

Nodes form(TestJob& job, std::size_t count) {
  Nodes nodes;
  for (std::size_t i = 0; i < count; ++i) {
    nodes.push_back(job.add());
  }
  REQUIRE(job.until([&] { return all_in_world_of(nodes, count); }));
  return nodes;
}

}  // namespace

TEST_CASE("nodes: three form a round at an endpoint that one of them can bind") {
  for (const char* host : {"127.0.0.1", "localhost", "::1"}) {
    TestJob job(host);
    Nodes nodes;
    for (int i = 0; i < 3; ++i) {
      nodes.push_back(job.add());
    }
    CAPTURE(host);
    REQUIRE(job.until([&] { return all_in_world_of(nodes, 3); }));
    const auto owners =
        std::ranges::count_if(nodes, [](const auto& node) { return node->node().has_endpoint(); });
    CHECK(owners == 1);
    for (const auto& node : nodes) {
      CHECK(node->rounds == 1);
      CHECK(node->node().address() == (std::string(host) == "::1" ? "::1" : "127.0.0.1"));
      CHECK(node->node().port() != 0);
    }
  }
}

TEST_CASE("nodes: all inspect their workers, and receive one verdict") {
  TestJob job;
  Nodes nodes = form(job, 3);
  nodes[2]->node().tell(InquireHere{});
  nodes[1]->node().tell(InquireHere{});
  REQUIRE(job.until([&] {
    return std::ranges::all_of(nodes, [](const auto& node) { return !node->verdicts.empty(); });
  }));
  for (const auto& node : nodes) {
    CHECK(node->verdicts.size() == 1);
    CHECK(node->verdicts.front() == "seen on 127.0.0.1;seen on 127.0.0.1;seen on 127.0.0.1;");
  }
}

TEST_CASE("nodes: a follower dies, and the others continue without it") {
  TestJob job;
  Nodes nodes = form(job, 3);
  check_agreement(nodes);
  nodes.erase(
      std::ranges::find_if(nodes, [](const auto& node) { return !node->node().has_endpoint(); }));
  REQUIRE(job.until([&] { return all_in_world_of(nodes, 2); }));
  check_agreement(nodes);
  CHECK(nodes.front()->round->round->restart_count == 0);
}

TEST_CASE("nodes: the host dies, another node takes over, and a newcomer finds the job") {
  TestJob job;
  Nodes nodes = form(job, 3);
  nodes.erase(
      std::ranges::find_if(nodes, [](const auto& node) { return node->node().has_endpoint(); }));
  REQUIRE(job.until([&] { return all_in_world_of(nodes, 2); }));
  check_agreement(nodes);
  nodes.push_back(job.add());
  REQUIRE(job.until([&] { return all_in_world_of(nodes, 3); }));
  check_agreement(nodes);
}

TEST_CASE("nodes: when all have finished, all exit") {
  TestJob job;
  Nodes nodes = form(job, 3);
  for (const auto& node : nodes) {
    node->finish_workers();
  }
  REQUIRE(job.until([&] {
    return std::ranges::all_of(nodes, [](const auto& node) { return node->end.has_value(); });
  }));
  for (const auto& node : nodes) {
    const auto* closed = std::get_if<EndClosed>(&*node->end);
    CHECK((std::holds_alternative<EndFinished>(*node->end) ||
           (closed != nullptr && closed->close.succeeded)));
  }
}

TEST_CASE("nodes: an unknown name is reported, and the node fails after join_timeout") {
  TestJob job("no-such-host.invalid");
  auto settings = job.settings();
  settings.core.join_timeout = 50ms;
  const auto node = job.add(settings);
  REQUIRE(job.until([&] { return node->end.has_value(); }));
  REQUIRE(std::holds_alternative<EndFailed>(*node->end));
  CHECK_THAT(std::get<EndFailed>(*node->end).error.message,
             Catch::Contains("no-such-host.invalid"));
}

TEST_CASE("nodes: a node with is_host hosts even if the endpoint is not its own address") {
  TestJob job("192.0.2.1");
  auto settings = job.settings();
  settings.is_host = true;
  settings.core.local_addr = "127.0.0.1";
  const auto host = job.add(settings);
  REQUIRE(job.until([&] { return host->node().has_endpoint(); }));
  TestJob other("127.0.0.1");
  auto joining = job.settings();
  joining.core.endpoints = {{"127.0.0.1", job.endpoint().port}};
  joining.is_host = false;
  const auto guest = job.add(joining);
  REQUIRE(job.until([&] { return host->world() == 2 && guest->world() == 2; }));
}

TEST_CASE("nodes: every listening socket is in the port range") {
  TestJob job;
  const std::uint16_t base = free_port();
  const auto last = static_cast<std::uint16_t>(std::min(base + 20, 65535));
  Nodes nodes;
  for (int i = 0; i < 3; ++i) {
    auto settings = job.settings();
    settings.ports = {base, last};
    nodes.push_back(job.add(settings));
  }
  REQUIRE(job.until([&] { return all_in_world_of(nodes, 3); }));
  for (const auto& node : nodes) {
    CHECK(node->node().port() >= base);
    CHECK(node->node().port() <= last);
  }
}

TEST_CASE("nodes: a node of another job is refused, and sees only its own job's name") {
  TestJob job;
  const auto host = job.add();
  auto settings = job.settings();
  settings.core.terms.job_id = "other";
  const auto stranger = job.add(settings);
  REQUIRE(job.until([&] { return stranger->end.has_value(); }));
  REQUIRE(std::holds_alternative<EndFailed>(*stranger->end));
  const std::string text = std::get<EndFailed>(*stranger->end).error.message;
  CHECK_THAT(text, Catch::Contains("'other'") && !Catch::Contains("'job'"));
}

TEST_CASE("nodes: every listener queries the Admission") {
  TestJob job;
  HeldAdmission admission;
  const auto host = job.add();
  host->node().set_admission(&admission);
  REQUIRE(job.until([&] { return host->node().has_endpoint(); }));
  const auto is_asked = [&](std::size_t times) {
    return job.until([&] { return admission.answers.size() == times; });
  };
  const auto guest = job.add();
  REQUIRE(is_asked(1));
  admission.answers[0]({});
  REQUIRE(job.until([&] { return host->world() == 2 && guest->world() == 2; }));
  // Through the port of the workers' store, which passes on connections from nodes.
  const auto store = host->node().open_store_on_endpoint();
  REQUIRE(store);
  const auto refused = job.add();
  REQUIRE(is_asked(2));
  admission.answers[1](failure(Errc::not_possible, "no key"));
  REQUIRE(job.until([&] { return !host->said.empty(); }));
  CHECK_THAT(
      host->said[0],
      Catch::StartsWith("refused the connection from 127.0.0.1:") && Catch::EndsWith("no key"));
  CHECK(host->world() == 2);
}

TEST_CASE("nodes: the workers' store and the rendezvous share one port") {
  TestJob job;
  Nodes nodes = form(job, 2);
  TestNode& host = *(nodes[0]->node().has_endpoint() ? nodes[0] : nodes[1]);
  TestNode& other = *(nodes[0]->node().has_endpoint() ? nodes[1] : nodes[0]);
  CHECK_FALSE(other.node().open_store_on_endpoint());
  for (int time = 0; time < 2; ++time) {
    auto store = host.node().open_store_on_endpoint();
    REQUIRE(store);
    CHECK((*store)->port() == *job.endpoint().port);
    // A worker, in a separate thread because it blocks.
    auto talk = std::async(std::launch::async, [&job] {
      const auto client = BlockingStore::connect("127.0.0.1", *job.endpoint().port, 10s);
      return client && (*client)->add("ready", 1) == 1;
    });
    REQUIRE(job.until([&] { return talk.wait_for(0s) == std::future_status::ready; }));
    CHECK(talk.get());
    // A node that uses the same port.
    nodes.push_back(job.add());
    REQUIRE(job.until([&] { return all_in_world_of(nodes, 3); }));
    nodes.pop_back();
    REQUIRE(job.until([&] { return all_in_world_of(nodes, 2); }));
    store->reset();
    host.node().store_closed();
  }
  nodes.push_back(job.add());
  REQUIRE(job.until([&] { return all_in_world_of(nodes, 3); }));
}
