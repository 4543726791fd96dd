// SPDX-License-Identifier: Apache-2.0
// What one rank does while nothing happens, judged by itself: its processes and stacks only. Used
// by judge. Pure.
#pragma once

#include "hang/evidence.hpp"
#include "hang/verdict.hpp"

#include <string>
#include <vector>

namespace muster::hang {

struct OwnCause {
  Cause cause = Cause::unknown;
  std::string reason{};      // "sleeps in main (train.py:12)"
  std::string collective{};  // waits for other ranks in this operation of a library; else ""
  pid_t holder = 0;          // process that it waits for, where one is known
  std::vector<std::string> stack{};  // of the thread that matters
  bool operator==(const OwnCause&) const = default;
};

[[nodiscard]] OwnCause own_cause(const RankEvidence& rank);

}  // namespace muster::hang
