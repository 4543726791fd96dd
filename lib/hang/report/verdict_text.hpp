// SPDX-License-Identifier: Apache-2.0
// Formats a verdict as text and as JSON. Pure.
#pragma once

#include "hang/evidence.hpp"
#include "hang/hang_core.hpp"
#include "hang/verdict.hpp"

#include <string>
#include <vector>

namespace muster::hang {

// Maximum lines of the block on stderr.
inline constexpr std::size_t kBlockLinesMax = 20;

// Facts about a verdict, besides the verdict itself.
struct VerdictFacts {
  double quiet = 0;  // seconds
  double limit = 0;
  bool automatic = false;  // the limit is from --hang-timeout=auto
  OnHang action = OnHang::report;
  std::vector<std::string> gaps{};
  std::string folder{};  // folder with all details; empty: none
  bool operator==(const VerdictFacts&) const = default;
};

// "rank 3: stopped by a signal": the first line without its prefix, and the event's text.
[[nodiscard]] std::string headline(const Verdict& verdict);

[[nodiscard]] std::vector<std::string> block_of(const Verdict& verdict, const VerdictFacts& facts);

// A group in the block: its first line, and up to `stack_lines` of its stack.
[[nodiscard]] std::vector<std::string> lines_of_group(const Group& group, std::size_t stack_lines);

// One object each, with a line break: the verdict, which is the same on all nodes; the evidence of
// this node's ranks; the groups of a job that need not hang.
[[nodiscard]] std::string json_of(const Verdict& verdict, const VerdictFacts& facts);
[[nodiscard]] std::string json_of(const Evidence& evidence);
[[nodiscard]] std::string stacks_json(const std::vector<Group>& groups, const Evidence& evidence);

// All stacks and states of one rank, as text.
[[nodiscard]] std::string story_of(const RankEvidence& rank);

}  // namespace muster::hang
