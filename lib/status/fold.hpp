// SPDX-License-Identifier: Apache-2.0
// Folds events into a status. Only this module knows how each event changes it. The events are the
// lines of events.jsonl (lib/agent/EVENTS.md), so that the launcher, which emits them, and
// musterctl, which reads a file, show the same. Pure.
#pragma once

#include "status/job_status.hpp"

#include <string_view>

namespace muster {

inline constexpr std::size_t kFailuresKeptMax = 100;
// Nodes and workers of all kept rounds; older rounds are dropped first. Bounds memory.
inline constexpr std::size_t kRoundEntriesMax = 20'000;
inline constexpr std::size_t kRoundsKeptMax = 200;

// Returns whether the line was an event. Unknown events and fields change nothing.
bool fold_event(JobStatus& status, std::string_view line);

}  // namespace muster
