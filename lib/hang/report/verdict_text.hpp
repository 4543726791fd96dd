// SPDX-License-Identifier: Apache-2.0
// A verdict for people and for programs. Pure.
#pragma once

#include "hang/evidence.hpp"
#include "hang/hang_core.hpp"
#include "hang/verdict.hpp"

#include <string>
#include <vector>

namespace muster::hang {

// The block on stderr has no more lines than this.
inline constexpr std::size_t kBlockLinesMax = 20;

// What a verdict is about, besides itself.
struct VerdictFacts {
  double quiet = 0;  // seconds
  double limit = 0;
  bool automatic = false;  // the limit was found by --hang-timeout=auto
  OnHang action = OnHang::report;
  std::vector<std::string> gaps{};
  std::string folder{};  // where all of it is; empty: nowhere
  bool operator==(const VerdictFacts&) const = default;
};

// "rank 3 is stopped by a signal": the first line without its mark, and the event's text.
[[nodiscard]] std::string headline(const Verdict& verdict);

[[nodiscard]] std::vector<std::string> block_of(const Verdict& verdict, const VerdictFacts& facts);

// A group in the block: its first line, and so many of its stack.
[[nodiscard]] std::vector<std::string> lines_of_group(const Group& group, std::size_t stack_lines);

// One object each, with a line break: the verdict, which is the same on all nodes; what was seen of
// the ranks of this one; the groups of a job that need not hang.
[[nodiscard]] std::string json_of(const Verdict& verdict, const VerdictFacts& facts);
[[nodiscard]] std::string json_of(const Evidence& evidence);
[[nodiscard]] std::string stacks_json(const std::vector<Group>& groups, const Evidence& evidence);

// All stacks and states of one rank, as text.
[[nodiscard]] std::string story_of(const RankEvidence& rank);

}  // namespace muster::hang
