// SPDX-License-Identifier: Apache-2.0
// Folds events into a status. Only this module knows how each event changes the status. The events
// are the lines of events.jsonl (lib/agent/EVENTS.md). The launcher, which emits events, and
// musterctl, which reads a file, therefore show the same status. Pure.
#pragma once

#include "status/job_status.hpp"

#include <string_view>

namespace muster {

inline constexpr std::size_t kFailuresKeptMax = 100;
// Limit on the number of nodes and workers in all kept rounds, to bound memory. The oldest rounds
// are dropped first.
inline constexpr std::size_t kRoundEntriesMax = 20'000;
inline constexpr std::size_t kRoundsKeptMax = 200;

// Returns true if the line was an event. Unknown events and fields change nothing.
bool fold_event(JobStatus& status, std::string_view line);

}  // namespace muster
