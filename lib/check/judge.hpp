// SPDX-License-Identifier: Apache-2.0
// The verdict of --check: compares the figures of all nodes and names the nodes and links that are
// far from the others. Called by the agent that leads the round. Pure; thread-safe.
#pragma once

#include "check/figures.hpp"

#include <optional>
#include <string>
#include <vector>

namespace muster::check {

// The number of findings that a verdict contains. Further ones are only counted.
inline constexpr std::size_t kFindingsMax = 100;

// The number of bad nodes that a verdict contains. It keeps the verdict's size within the limit of
// the rendezvous.
inline constexpr std::size_t kBadNodesMax = 4096;

// One defect of a node, or of the link between two nodes.
struct Finding {
  int node = 0;                  // index of the node
  int other = -1;                // of a link: index of the other node
  std::string name{};            // of the node, or of both: "a and b"
  std::string metric{};          // MetricRule::id; "problem" if no metric applies
  double value = 0;              // of the metric
  std::optional<double> median;  // of the nodes, if they were compared
  std::string text{};            // "memory bandwidth 2.1 GB/s, the median is 11.8 GB/s"
  bool operator==(const Finding&) const = default;
};

// The range of one metric over all nodes.
struct MetricSummary {
  Metric metric = Metric::cpus;
  double median = 0;
  double lowest = 0;
  double highest = 0;
  std::string lowest_node{};
  std::string highest_node{};
  bool operator==(const MetricSummary&) const = default;
};

struct Verdict {
  int nodes = 0;
  std::vector<Finding> findings{};
  int more_findings = 0;                  // beyond kFindingsMax
  std::vector<int> bad_nodes{};           // indices, ascending
  std::vector<std::string> unmeasured{};  // "node b: GPUs: nvidia-smi did not answer within 2 s"
  std::vector<MetricSummary> summary{};
  bool workers_ran = false;  // on at least one node, so only some metrics are compared
  bool operator==(const Verdict&) const = default;
};

[[nodiscard]] Verdict judge(const std::vector<NodeReport>& nodes);

// "node b: memory bandwidth 2.1 GB/s, the median is 11.8 GB/s"
[[nodiscard]] std::string describe(const Finding& finding);

// The distances at which nodes measure their links: 1, 2, 4, … below the number of nodes. In round
// k, node i connects to node i + 2^k.
[[nodiscard]] std::vector<int> link_distances(int nodes);

}  // namespace muster::check
