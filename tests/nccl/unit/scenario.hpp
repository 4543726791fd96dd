// SPDX-License-Identifier: Apache-2.0
// The scenarios of the program muster-nccl-scenario: they use the backend over the fakes, possibly
// with a planted error, or break a rule by direct calls. Each runs in a separate process, because a
// broken rule terminates it.
#pragma once

#include <map>
#include <string>

namespace muster::testing {

// By name. Exit code 0: success; 1: an operation failed.
using Scenario = int (*)();
[[nodiscard]] const std::map<std::string, Scenario>& back_end_scenarios();
// Scenarios in which the library itself terminates the process, with another code.
[[nodiscard]] const std::map<std::string, Scenario>& ending_scenarios();

struct Misuse {
  void (*run)();
  const char* sentence;  // the message that names the broken rule
};

[[nodiscard]] const std::map<std::string, Misuse>& misuse_scenarios();

}  // namespace muster::testing
