// SPDX-License-Identifier: Apache-2.0
// What is true of a SupervisorCore between any two events. Checked after every event in simulation
// and in debug builds; a row for each rule, so that a test can show that each one bites. Pure.
#pragma once

#include "agent/supervisor/supervisor_core.hpp"

#include <optional>
#include <set>
#include <string_view>

namespace muster {

// The core's members that the rules speak of.
struct SupervisorFacts {
  SupervisorState state = SupervisorState::joining;
  StopReason why = StopReason::nothing;
  bool has_deadline = false;
  bool spares_helpers = false;
  bool attempt_open = false;
  bool closed = false;  // the job's end is known
  int starts = 0;
  int spawned = 0;
  int others = 0;
  std::set<int> live;  // local ranks that are not reaped
  std::set<int> dying;
  bool awaits_signal = false;
  std::optional<int> early;
  JobResult result;
};

// Describes the first rule that is broken; empty where all hold.
[[nodiscard]] std::string_view broken_invariant(const SupervisorFacts& facts);

}  // namespace muster
