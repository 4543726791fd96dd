// SPDX-License-Identifier: Apache-2.0
// StepTold, Progress: how far one worker of this node says that it is. What status, hang check and
// report read, one for each local rank. Values.
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
  std::optional<std::uint64_t> step;     // none: it has told none in this round
  TimePoint time{};                      // when it told its step; none: when it was started
  std::optional<std::string> unhealthy;  // why, as long as it says that it is not well
  bool operator==(const Progress&) const = default;
};

}  // namespace muster::channel
