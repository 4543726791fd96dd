// SPDX-License-Identifier: Apache-2.0
// Invariants of a SupervisorCore between any two events. Checked after every event in simulation
// and in debug builds. Each rule is a separate row, so that tests can violate each rule separately.
// Pure.
#pragma once

#include "agent/supervisor/supervisor_core.hpp"

#include <optional>
#include <set>
#include <string_view>

namespace muster {

// The members of the core that the rules check.
struct SupervisorFacts {
  SupervisorState state = SupervisorState::joining;
  StopReason why = StopReason::nothing;
  bool has_deadline = false;
  bool spares_helpers = false;
  bool attempt_open = false;
  bool closed = false;  // the job's outcome is known
  int starts = 0;
  int spawned = 0;
  int others = 0;
  std::set<int> live;  // local ranks of workers that have not been reaped
  std::set<int> dying;
  bool awaits_signal = false;
  std::optional<int> early;
  std::set<int> holders;  // workers that have the job's state
  std::set<int> missing;  // workers to be replaced
  JobResult result;
};

// Describes the first violated rule; empty if all hold.
[[nodiscard]] std::string_view broken_invariant(const SupervisorFacts& facts);

}  // namespace muster
