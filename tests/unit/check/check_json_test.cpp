// SPDX-License-Identifier: Apache-2.0
#include "check/check_json.hpp"

#include "check/link_ports.hpp"
#include "fleet.hpp"
#include "support/catch.hpp"
#include "support/seed.hpp"

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace muster::check {
namespace {

TEST_CASE("check: figures survive JSON") {
  testing::Dice dice(1);
  NodeFigures figures = healthy_fleet(dice, 9)[4].figures;
  figures.problems = {"cannot write"};
  figures.unmeasured = {"GPUs"};
  figures.port = 4711;
  figures.workers_ran = true;
  CHECK(decode_figures(encode(figures)) == figures);
  CHECK(decode_figures(encode(NodeFigures{})) == NodeFigures{});
}

TEST_CASE("check: a verdict survives JSON") {
  testing::Dice dice(1);
  auto fleet = healthy_fleet(dice, 6);
  fleet[2].figures.values[Metric::cpus] = 0.5;
  fleet[3].figures.problems = {"broken"};
  fleet[4].figures.links[0].latency = 1;
  fleet[5].figures.workers_ran = dice.below(2) == 0;
  const Verdict verdict = judge(fleet);
  REQUIRE(verdict.findings.size() == 3);
  CHECK(decode_verdict(encode(verdict)) == verdict);
}

TEST_CASE("check: JSON says by which metrics nodes are compared") {
  const auto compared = [](std::string_view metric, bool workers_ran) {
    testing::Dice dice(1);
    auto fleet = healthy_fleet(dice, 3);
    fleet[0].figures.workers_ran = workers_ran;
    const std::string text = encode(judge(fleet));
    return text.contains(fmt::format(R"("metric":"{}","compared":true)", metric));
  };
  CHECK(compared("memory_free", false));
  CHECK_FALSE(compared("memory_free", true));
  CHECK(compared("clock_offset", true));
  CHECK_FALSE(compared("disk_free", false));
}

TEST_CASE("check: a verdict about many bad nodes fits into a message") {
  std::vector<NodeReport> nodes(10000, NodeReport{std::string(60, 'n')});
  for (NodeReport& node : nodes) {
    node.figures.values[Metric::shm_size] = 1;
  }
  CHECK(encode(judge(nodes)).size() < 65536);
  for (NodeReport& node : nodes) {
    node.node = std::string(200, '\\');
    node.figures.unmeasured = {std::string(300, '"')};
  }
  const Verdict verdict = judge(nodes);
  REQUIRE(encode(verdict).size() > 65536);
  const std::string text = encode(verdict, 65536);
  CHECK(text.size() <= 65536);
  const Verdict received = decode_verdict(text);
  REQUIRE_FALSE(verdict.bad_nodes.empty());
  CHECK(received.bad_nodes == verdict.bad_nodes);
  CHECK(received.more_findings > verdict.more_findings);
}

TEST_CASE("check: ports survive JSON, and other texts are no ports") {
  const LinkPorts ports{{0, 4711, 65535}, std::string(32, 'f')};
  CHECK(decode_link_ports(encode(ports)) == ports);
  CHECK_FALSE(decode_link_ports(encode(Verdict{})));
  CHECK(decode_link_ports(R"({"ports":[-1,70000,"x",5]})")->ports ==
        std::vector<std::uint16_t>{0, 0, 0, 5});
}

TEST_CASE("check: malformed input is ignored") {
  for (const std::string text :
       {"",
        "[",
        "7",
        R"({"figures":[1],"links":{"a":1},"port":-3,"problems":7})",
        R"({"figures":{"cpus":"x","gpus":null},"links":[4],"port":1e9})"}) {
    CHECK(decode_figures(text) == NodeFigures{});
  }
  for (const std::string text : {"", "[", R"({"findings":"x","bad_nodes":["a"],"summary":[1]})"}) {
    CHECK(decode_verdict(text).bad_nodes.empty());
    CHECK(decode_verdict(text).summary.empty());
  }
  const std::string hostile = R"({"problems":["\u001b[31mred"]})";
  CHECK(decode_figures(hostile).problems.front().find('\x1b') == std::string::npos);
}

}  // namespace
}  // namespace muster::check
