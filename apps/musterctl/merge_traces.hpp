// SPDX-License-Identifier: Apache-2.0
// Merges the traces of several ranks into one file, so that a viewer shows them below each other.
// Formats: Chrome's trace events, as Kineto writes them ("Trace Event Format", which Perfetto
// reads), and speedscope's file format. Stateless.
#pragma once

#include "base/error.hpp"

#include <iosfwd>
#include <string>
#include <vector>

namespace muster {

inline constexpr const char* kTraceEnding = ".json";
inline constexpr const char* kSpeedscopeEnding = ".speedscope.json";

struct RankTrace {
  int rank = 0;
  std::string path;
};

// The files rank_N.json or rank_N.speedscope.json in a folder, in the order of ranks.
[[nodiscard]] std::vector<RankTrace> traces_in(const std::string& folder, const char* ending);

// Reads one event at a time, because a trace may be larger than the memory. Error: not_possible.
[[nodiscard]] Result<void> merge_traces(const std::vector<RankTrace>& traces, std::ostream& out);

// Error: not_possible.
[[nodiscard]] Result<void> merge_speedscopes(const std::vector<RankTrace>& traces,
                                             std::ostream& out);

}  // namespace muster
