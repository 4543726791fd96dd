// SPDX-License-Identifier: Apache-2.0
// Measures this node for --check. Runs in a child process of the agent (`muster --measure-node`),
// so that the agent never blocks. Before each step it prints the figures so far as one line of
// JSON. If a step hangs, the agent kills the process, and the last line names the step. Called
// once, by main.
#pragma once

#include "base/environ.hpp"
#include "base/time.hpp"

namespace muster::check {

// The variable with the folder for log files. It may not exist yet. If empty, it is not checked.
inline constexpr const char* kLogFolderVariable = "MUSTER_CHECK_FOLDER";

// If this variable is set, workers run on this node. Metrics that say nothing then are not
// measured, so that the workers are disturbed little.
inline constexpr const char* kWorkersVariable = "MUSTER_CHECK_WORKERS";

// Time limits of the steps. CPU and memory are measured in short pieces, of which the best counts.
inline constexpr Duration kCpuTime = std::chrono::milliseconds(200);
inline constexpr Duration kMemoryTime = std::chrono::milliseconds(400);
inline constexpr Duration kSmiTimeout = std::chrono::seconds(2);

[[nodiscard]] int run_measure_node(const Environ& environ);

}  // namespace muster::check
