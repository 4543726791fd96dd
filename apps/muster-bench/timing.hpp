// SPDX-License-Identifier: Apache-2.0
// The run time of programs, from just before the first is spawned until the last has been reaped.
// Called by the tool `time`. Stateless functions.
#pragma once

#include "base/error.hpp"

#include <string>
#include <vector>

namespace muster::bench {

struct TimingPlan {
  std::vector<std::vector<std::string>> programs;  // started at the same time
  int timeout_ms = 120'000;                        // per program; a hung one is killed
  bool drain = false;                              // read the single program's stdout, count lines
};

struct Timing {
  double milliseconds = 0;
  long long lines = 0;
};

// Error: a program failed.
[[nodiscard]] Result<Timing> measure_time(const TimingPlan& plan);

}  // namespace muster::bench
