// SPDX-License-Identifier: Apache-2.0
#include "check/judge.hpp"

#include "fleet.hpp"
#include "support/catch.hpp"
#include "support/seed.hpp"

#include <string>
#include <vector>

namespace muster::check {
namespace {

NodeReport node(const std::string& name, Metric metric, double value) {
  NodeReport out{name};
  out.figures.values[metric] = value;
  return out;
}

std::vector<std::string> texts(const std::vector<NodeReport>& nodes) {
  std::vector<std::string> out;
  for (const Finding& finding : judge(nodes).findings) {
    out.push_back(describe(finding));
  }
  return out;
}

using Texts = std::vector<std::string>;

TEST_CASE("check: a finding contains the figure and the median") {
  const auto at = [](const char* name, double value) {
    return node(name, Metric::memory_bandwidth, value);
  };
  CHECK(texts({at("a", 11.8e9), at("b", 2.1e9), at("c", 12e9)}) ==
        Texts{"node b: memory bandwidth 2.1 GB/s, the median is 11.8 GB/s"});
  CHECK(texts({at("a", 11.8e9), at("b", 2.1e9)}) ==
        Texts{"node b: memory bandwidth 2.1 GB/s, the median is 11.8 GB/s"});
  CHECK(texts({at("a", 2.1e9)}).empty());
  // One fast node is no reason to name the others.
  CHECK(texts({at("a", 10e9), at("b", 90e9), at("c", 10e9)}).empty());
}

TEST_CASE("check: absolute limits apply to a single node") {
  CHECK(texts({node("a", Metric::shm_size, 64 << 20)}) ==
        Texts{"node a: size of /dev/shm 64 MiB, the minimum is 128 MiB"});
  CHECK(texts({node("a", Metric::gpu_ecc_errors, 1)}) ==
        Texts{"node a: uncorrected GPU memory errors 1, the maximum is 0"});
}

TEST_CASE("check: of two clocks, the first one is the reference") {
  const auto at = [](const char* name, double value) {
    return node(name, Metric::clock_offset, value);
  };
  CHECK(texts({at("a", 3600), at("b", 0)}) ==
        Texts{"node b: the clock is 3600.0 s behind the other nodes"});
  CHECK(texts({at("a", 0.7), at("b", 0), at("c", 0)}) ==
        Texts{"node a: the clock is 700.0 ms ahead of the other nodes"});
  CHECK(texts({at("a", 0.2), at("b", 0)}).empty());
}

TEST_CASE("check: high limits are equal enough") {
  const auto at = [](const char* name, double value) {
    return node(name, Metric::open_files, value);
  };
  CHECK(texts({at("a", 1e9), at("b", 65536)}).empty());
  CHECK(texts({at("a", 1e9), at("b", 4096)}) ==
        Texts{"node b: limit of open files 4096, the median is 65536"});
}

TEST_CASE("check: a link between two good nodes is named without excluding them") {
  testing::Dice dice(1);
  auto fleet = healthy_fleet(dice, 8);
  fleet[2].figures.links[1].bandwidth = 20e6;
  const Verdict verdict = judge(fleet);
  REQUIRE(verdict.findings.size() == 1);
  CHECK(describe(verdict.findings[0])
            .starts_with(
                "link between node2 and node4: network bandwidth 20.0 MB/s, the median is "));
  CHECK(verdict.bad_nodes.empty());
}

TEST_CASE("check: the two directions between two nodes are not compared") {
  for (const int nodes : {2, 3}) {
    testing::Dice dice(1);
    auto fleet = healthy_fleet(dice, nodes);
    fleet[0].figures.links[0].bandwidth = 80e6;
    fleet[0].figures.links[0].latency = 0.015;
    CHECK(texts(fleet).size() == (nodes == 2 ? 0 : 2));
  }
}

TEST_CASE("check: two nodes have one link, which has an absolute limit") {
  testing::Dice dice(1);
  auto fleet = healthy_fleet(dice, 2);
  for (NodeReport& one : fleet) {
    one.figures.links[0].bandwidth = 1.2e6;
  }
  CHECK(texts(fleet).size() == 2);
  CHECK(texts(fleet)[0] ==
        "link between node0 and node1: network bandwidth 1.2 MB/s, the minimum is 12.5 MB/s");
  CHECK(judge(fleet).bad_nodes.empty());
}

// 100 healthy nodes with running workers, of which one has this value.
std::vector<NodeReport> working_fleet(Metric metric, double value) {
  std::vector<NodeReport> nodes(100, node("a", metric, 64e9));
  for (NodeReport& one : nodes) {
    one.figures.workers_ran = true;
  }
  nodes[7].figures.values[metric] = value;
  return nodes;
}

TEST_CASE("check: while workers run, nodes are not compared by what the workers change") {
  for (const Metric metric : {Metric::memory_free, Metric::shm_free}) {
    CHECK(texts(working_fleet(metric, 2e9)).empty());
    CHECK(texts(working_fleet(metric, 0)).size() == 1);  // the limit
    CHECK(judge(working_fleet(metric, 2e9)).summary.size() == 1);
  }
  for (const Metric metric :
       {Metric::cpu_speed, Metric::memory_bandwidth, Metric::gpu_memory_used}) {
    CHECK(texts(working_fleet(metric, 1)).empty());
    CHECK(judge(working_fleet(metric, 1)).summary.empty());
  }
  for (const Metric metric : {Metric::cpus, Metric::shm_size, Metric::gpus}) {
    CHECK(texts(working_fleet(metric, 2)).size() == 1);
  }
}

TEST_CASE("check: one node with running workers is enough") {
  auto nodes = working_fleet(Metric::cpu_speed, 1);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].figures.workers_ran = i == 3;
  }
  CHECK(judge(nodes).workers_ran);
  CHECK(texts(nodes).empty());
  nodes[3].figures.workers_ran = false;
  CHECK_FALSE(judge(nodes).workers_ran);
  CHECK(texts(nodes).size() == 1);
}

TEST_CASE("check: while workers run, links have only absolute limits") {
  testing::Dice dice(1);
  auto fleet = healthy_fleet(dice, 8);
  fleet[0].figures.workers_ran = true;
  fleet[2].figures.links[1].bandwidth = 20e6;
  fleet[3].figures.links[1].latency = 0.015;
  CHECK(texts(fleet).empty());
  fleet[2].figures.links[1].bandwidth = 12e6;
  fleet[3].figures.links[1].latency = 0.021;
  CHECK(texts(fleet).size() == 2);
}

TEST_CASE("check: all links are measured in a logarithmic number of rounds") {
  CHECK(link_distances(1).empty());
  CHECK(link_distances(2) == std::vector{1});
  CHECK(link_distances(5) == std::vector{1, 2, 4});
  CHECK(link_distances(1024).size() == 10);
}

TEST_CASE("check: what was not measured and the range of each metric are in the verdict") {
  std::vector<NodeReport> nodes{node("a", Metric::cpus, 8), node("b", Metric::cpus, 7)};
  nodes[1].figures.unmeasured = {"GPUs: nvidia-smi did not answer within 2 s"};
  const Verdict verdict = judge(nodes);
  CHECK(verdict.unmeasured == Texts{"node b: GPUs: nvidia-smi did not answer within 2 s"});
  CHECK(verdict.summary == std::vector{MetricSummary{Metric::cpus, 7.5, 7, 8, "b", "a"}});
}

TEST_CASE("check: the number of findings is limited") {
  const std::vector<NodeReport> nodes(500, node("a", Metric::shm_size, 1));
  const Verdict verdict = judge(nodes);
  CHECK(verdict.findings.size() == kFindingsMax);
  CHECK(verdict.more_findings == 400);
  CHECK(verdict.bad_nodes.size() == 500);
}

}  // namespace
}  // namespace muster::check
