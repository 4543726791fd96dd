// SPDX-License-Identifier: Apache-2.0
// The figures that nodes measure for --check. Values; thread-safe.
#pragma once

#include "check/metric.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace muster::check {

// Bytes. Figures are doubles.
inline constexpr double kKi = 1024;
inline constexpr double kMi = kKi * kKi;
inline constexpr double kGi = kMi * kKi;

// A link between two nodes, measured by the node that connected.
struct LinkFigures {
  int to = 0;            // index of the other node
  double latency = 0;    // in seconds, there and back
  double bandwidth = 0;  // in bytes per second
  bool operator==(const LinkFigures&) const = default;
};

// What one node has measured.
struct NodeFigures {
  std::map<Metric, double> values{};
  std::vector<std::string> problems{};    // what is broken, for example a read-only log folder
  std::vector<std::string> unmeasured{};  // what was not measured, and why
  std::vector<LinkFigures> links{};
  bool workers_ran = false;  // on this node, during the measurement
  std::uint16_t port = 0;    // on which this node accepts the other nodes' measurements; 0: none
  bool operator==(const NodeFigures&) const = default;
};

struct NodeReport {
  std::string node;  // host name
  NodeFigures figures{};
};

}  // namespace muster::check
