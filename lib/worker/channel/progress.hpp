// SPDX-License-Identifier: Apache-2.0
// StepTold, NamedNumber, Progress: the progress that a worker on this node reports. Status, hang
// detection and the straggler report read one Progress per local rank. Values.
#pragma once

#include "base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace muster::channel {

struct StepTold {
  std::uint64_t step = 0;
  TimePoint when{};
  bool operator==(const StepTold&) const = default;
};

// A number that a worker reports with its steps, such as its loss.
struct NamedNumber {
  std::string name;
  double number = 0;
  bool operator==(const NamedNumber&) const = default;
};

struct Progress {
  std::optional<std::uint64_t> step;     // empty if none was reported in this round
  TimePoint time{};                      // time of the last report, or else of the worker's start
  std::optional<std::string> unhealthy;  // the reason, while it reports that it is unhealthy
  bool operator==(const Progress&) const = default;
};

}  // namespace muster::channel
