// SPDX-License-Identifier: Apache-2.0
// StepTold, Progress: the progress that a worker of this node reports. Status, hang detection and
// the report read one per local rank. Values.
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

struct Progress {
  std::optional<std::uint64_t> step;     // empty: no step reported in this round
  TimePoint time{};                      // time of the last report; without one, the worker's start
  std::optional<std::string> unhealthy;  // why, while it reports itself as unhealthy
  bool operator==(const Progress&) const = default;
};

}  // namespace muster::channel
