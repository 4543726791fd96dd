// SPDX-License-Identifier: Apache-2.0
// Runs muster-nccl-scenario and keeps its output on stderr.
#pragma once

#include <string>
#include <vector>

namespace muster::testing {

struct Ended {
  int status = -1;  // as set by waitpid
  std::string output;

  // -1: killed by a signal.
  [[nodiscard]] int exit_code() const;
};

[[nodiscard]] Ended run_scenario(std::vector<std::string> args);

}  // namespace muster::testing
