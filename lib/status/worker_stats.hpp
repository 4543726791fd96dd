// SPDX-License-Identifier: Apache-2.0
// WorkerStats, StepChart: what a worker does at the moment. No event contains these values; the
// code that serves the status reads them on demand. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster {

// How long a worker has waited for other ranks in operations of the collective library.
struct WaitStatus {
  double share = 0;    // fraction of the time of recent steps
  double seconds = 0;  // total since the worker was started
};

struct WorkerStats {
  std::optional<std::uint64_t> step = std::nullopt;  // the training step that the worker reported
  std::optional<double> step_age = std::nullopt;     // seconds since it reported the step
  std::optional<double> steps_per_second = std::nullopt;
  std::vector<std::pair<std::string, double>> numbers = {};  // reported with the step; any double
  std::optional<WaitStatus> waits = std::nullopt;
  std::optional<double> output_age =
      std::nullopt;  // seconds since its last output, or else since its start
  std::optional<double> cpus = std::nullopt;           // CPUs that it and its child processes use
  std::optional<std::uint64_t> memory = std::nullopt;  // bytes of RAM that they use
  std::optional<double> gpus = std::nullopt;  // sum of the utilization of the GPUs that they use
  std::optional<std::uint64_t> gpu_memory = std::nullopt;  // bytes of GPU memory that they use
};

// The duration of a step on this node in the past, one value per interval, oldest first. Empty
// where no step was completed.
struct StepChart {
  double end = 0;  // Unix time of the end of the last interval
  std::vector<std::optional<double>> seconds;
};

// The workers of this node, by local rank.
struct NodeStats {
  std::vector<WorkerStats> workers;
  StepChart steps;
};

}  // namespace muster
