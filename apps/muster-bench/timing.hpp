// SPDX-License-Identifier: Apache-2.0
// How long programs run, from before the first is spawned until the last was waited for. Called by
// the tool `time`. Functions over values.
#pragma once

#include "base/error.hpp"

#include <string>
#include <vector>

namespace muster::bench {

struct TimingPlan {
  std::vector<std::vector<std::string>> programs;  // all are started at once
  int timeout_ms = 120'000;                        // of each; one that hangs is killed
  bool drain = false;                              // one program: reads its stdout, counts lines
};

struct Timing {
  double milliseconds = 0;
  long long lines = 0;
};

// Error: a program did not end with 0.
[[nodiscard]] Result<Timing> measure_time(const TimingPlan& plan);

}  // namespace muster::bench
