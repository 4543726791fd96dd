// SPDX-License-Identifier: Apache-2.0
// What the program muster-nccl-scenario can do: use the back end over the fakes, perhaps with a
// planted error, or break a rule by calls of its own. Each in a process of its own, because a
// broken rule ends it.
#pragma once

#include <map>
#include <string>

namespace muster::testing {

// Exit code 0: all went well; 1: an operation failed. By name.
using Scenario = int (*)();
[[nodiscard]] const std::map<std::string, Scenario>& back_end_scenarios();
// Ends the process by itself, with another code.
[[nodiscard]] const std::map<std::string, Scenario>& ending_scenarios();

struct Misuse {
  void (*run)();
  const char* sentence;  // of the rule that it breaks
};

[[nodiscard]] const std::map<std::string, Misuse>& misuse_scenarios();

}  // namespace muster::testing
