// SPDX-License-Identifier: Apache-2.0
// Each of these defects is found in random fleets of any size, on the right node and with its
// figure. In healthy fleets, no node is named.
#include "fleet.hpp"
#include "support/catch.hpp"
#include "support/seed.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace muster::check {
namespace {

constexpr int kFleets = 20;
constexpr int kHealthyFleets = 1000;

struct Defect {
  std::string name;
  std::string metric;  // of the finding
  std::function<void(std::vector<NodeReport>& fleet, int bad)> inject;
  int nodes_min = 2;
};

Defect sets(std::string name, Metric metric, double value) {
  return {std::move(name), std::string(rule_of(metric).id), [=](auto& fleet, int bad) {
            fleet[static_cast<std::size_t>(bad)].figures.values[metric] = value;
          }};
}

Defect scales(std::string name, Metric metric, double factor) {
  return {std::move(name), std::string(rule_of(metric).id), [=](auto& fleet, int bad) {
            fleet[static_cast<std::size_t>(bad)].figures.values[metric] *= factor;
          }};
}

Defect breaks(std::string text) {
  return {text, "problem", [=](auto& fleet, int bad) {
            fleet[static_cast<std::size_t>(bad)].figures.problems.push_back(text);
          }};
}

// Changes all links from and to the node, or only those to it.
Defect slows(std::string name, Metric metric, bool both, std::function<void(LinkFigures&)> change) {
  return {std::move(name),
          std::string(rule_of(metric).id),
          [=](auto& fleet, int bad) {
            for (std::size_t i = 0; i < fleet.size(); ++i) {
              for (LinkFigures& link : fleet[i].figures.links) {
                if (link.to == bad || (both && std::cmp_equal(i, bad))) {
                  change(link);
                }
              }
            }
          },
          3};
}

std::vector<Defect> defects() {
  return {scales("CPU quota", Metric::cpus, 0.5),
          scales("slow CPU", Metric::cpu_speed, 0.4),
          scales("slow memory", Metric::memory_bandwidth, 0.3),
          scales("memory in use by another program", Metric::memory_free, 0.2),
          sets("small /dev/shm", Metric::shm_size, 64 << 20),
          scales("smaller /dev/shm than the others", Metric::shm_size, 0.25),
          sets("full /dev/shm", Metric::shm_free, 4096),
          sets("full disk", Metric::disk_free, 0),
          sets("no free inodes", Metric::disk_files_free, 3),
          sets("few open files", Metric::open_files, 256),
          sets("few processes", Metric::processes, 100),
          scales("little locked memory", Metric::locked_memory, 0.01),
          sets("clock ahead", Metric::clock_offset, 3),
          sets("clock behind", Metric::clock_offset, -3600),
          sets("GPU memory errors", Metric::gpu_ecc_errors, 2),
          sets("throttled GPU", Metric::gpus_throttled, 1),
          sets("GPU memory in use", Metric::gpu_memory_used, 30e9),
          breaks("cannot write to the log folder '/logs': read-only file system"),
          slows("slow link", Metric::bandwidth, false, [](auto& link) { link.bandwidth = 1e6; }),
          slows("long way", Metric::latency, true, [](auto& link) { link.latency += 0.01; })};
}

std::string text_of(const Verdict& verdict) {
  std::string out;
  for (const Finding& finding : verdict.findings) {
    out += describe(finding) + "\n";
  }
  return out;
}

TEST_CASE("check: each of 20 defects is found in 20 of 20 fleets") {
  const testing::Seed seed;
  INFO(seed.describe());
  testing::Dice dice(seed.value());
  REQUIRE(defects().size() == 20);
  for (const Defect& defect : defects()) {
    for (int i = 0; i < kFleets; ++i) {
      const int nodes = defect.nodes_min + static_cast<int>(dice.below(63));
      // The clock of the first of two nodes is the reference.
      const int bad = nodes == 2 ? 1 : static_cast<int>(dice.below(static_cast<unsigned>(nodes)));
      auto fleet = healthy_fleet(dice, nodes);
      defect.inject(fleet, bad);
      const Verdict verdict = judge(fleet);
      INFO(defect.name << ", node " << bad << " of " << nodes << "\n" << text_of(verdict));
      CHECK(verdict.bad_nodes == std::vector{bad});
      REQUIRE(!verdict.findings.empty());
      CHECK(verdict.findings.front().metric == defect.metric);
      CHECK(describe(verdict.findings.front()).starts_with(fmt::format("node node{}: ", bad)));
    }
  }
}

TEST_CASE("check: fewer GPUs than on the other nodes") {
  const testing::Seed seed;
  INFO(seed.describe());
  testing::Dice dice(seed.value());
  for (int i = 0; i < kFleets; ++i) {
    auto fleet = healthy_fleet(dice, 5);
    for (NodeReport& node : fleet) {
      node.figures.values[Metric::gpus] = 8;
    }
    fleet[3].figures.values[Metric::gpus] = 7;
    const Verdict verdict = judge(fleet);
    REQUIRE(verdict.findings.size() == 1);
    CHECK(describe(verdict.findings[0]) == "node node3: usable GPUs 7, the median is 8");
  }
}

TEST_CASE("check: in healthy fleets, no node is named") {
  const testing::Seed seed;
  INFO(seed.describe());
  testing::Dice dice(seed.value());
  for (int i = 0; i < kHealthyFleets; ++i) {
    const int nodes = 1 + static_cast<int>(dice.below(64));
    const Verdict verdict = judge(healthy_fleet(dice, nodes));
    INFO(nodes << " nodes\n" << text_of(verdict));
    CHECK(verdict.findings.empty());
    CHECK(verdict.bad_nodes.empty());
    CHECK(verdict.nodes == nodes);
  }
}

}  // namespace
}  // namespace muster::check
