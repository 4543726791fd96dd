// SPDX-License-Identifier: Apache-2.0
// Formats a verdict as text and as JSON. Pure.
#pragma once

#include "hang/evidence.hpp"
#include "hang/on_hang.hpp"
#include "hang/verdict.hpp"

#include <string>
#include <vector>

namespace muster::hang {

// Maximum number of lines of the report on stderr.
inline constexpr std::size_t kBlockLinesMax = 20;

// Facts that accompany a verdict in the report.
struct VerdictFacts {
  double quiet = 0;  // seconds
  double limit = 0;
  bool automatic = false;  // the limit is from --hang-timeout=auto
  OnHang action = OnHang::report;
  std::vector<std::string> gaps{};
  std::string folder{};  // folder with all details, or empty
  bool operator==(const VerdictFacts&) const = default;
};

// For example "rank 3: stopped by a signal": the report's first line without its prefix. Also used
// as the text of the event.
[[nodiscard]] std::string headline(const Verdict& verdict);

[[nodiscard]] std::vector<std::string> block_of(const Verdict& verdict, const VerdictFacts& facts);

// The lines of one group in the report: a first line, and up to `stack_lines` lines of its stack.
[[nodiscard]] std::vector<std::string> lines_of_group(const Group& group, std::size_t stack_lines);

// The following functions each return one JSON object and a line break: for the verdict (the same
// on all nodes), for the evidence about this node's ranks, and for the groups of ranks, even if the
// job does not hang.
[[nodiscard]] std::string json_of(const Verdict& verdict, const VerdictFacts& facts);
[[nodiscard]] std::string json_of(const Evidence& evidence);
[[nodiscard]] std::string stacks_json(const std::vector<Group>& groups, const Evidence& evidence);

// All stacks and thread states of one rank, as text.
[[nodiscard]] std::string story_of(const RankEvidence& rank);

}  // namespace muster::hang
