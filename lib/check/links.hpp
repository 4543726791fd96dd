// SPDX-License-Identifier: Apache-2.0
// Judges the links between nodes. A node is bad if all links to it, or all links from it, are bad.
// Otherwise the links are named one by one. Part of judge.hpp. Pure; thread-safe.
#pragma once

#include "check/judge.hpp"

#include <vector>

namespace muster::check {

// Also adds the range of latency and bandwidth to the summary.
[[nodiscard]] std::vector<Finding> judge_links(const std::vector<NodeReport>& nodes,
                                               bool workers_ran,
                                               std::vector<MetricSummary>& summary);

}  // namespace muster::check
