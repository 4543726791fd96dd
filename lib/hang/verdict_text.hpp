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

// One object, with a line break.
[[nodiscard]] std::string json_of(const Verdict& verdict,
                                  const VerdictFacts& facts,
                                  const Evidence& evidence);

// All stacks and states of one rank, as text.
[[nodiscard]] std::string story_of(const RankEvidence& rank);

}  // namespace muster::hang
