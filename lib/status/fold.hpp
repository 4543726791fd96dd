// SPDX-License-Identifier: Apache-2.0
// From events to a status: the only place that knows what each event means for it. The events are
// the lines of events.jsonl (lib/agent/EVENTS.md), so that the launcher, which has just told them,
// and musterctl, which reads a file, see the same. Pure.
#pragma once

#include "status/job_status.hpp"

#include <string_view>

namespace muster {

inline constexpr std::size_t kFailuresKeptMax = 100;
// Nodes and workers of all rounds that are kept; older rounds go first. Bounds memory.
inline constexpr std::size_t kRoundEntriesMax = 20'000;
inline constexpr std::size_t kRoundsKeptMax = 200;

// Whether the line was an event. An event or a field that is not known changes nothing.
bool fold_event(JobStatus& status, std::string_view line);

}  // namespace muster
