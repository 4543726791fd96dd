// SPDX-License-Identifier: Apache-2.0
// Number agreement in messages: "1 worker is", "3 workers are". Used by all modules that build
// sentences from counts. Pure functions; any thread.
#pragma once

#include "base/printable.hpp"

#include <concepts>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// The word that agrees with this count, such as agreeing(n, "waits", "wait").
[[nodiscard]] constexpr std::string_view agreeing(std::integral auto count,
                                                  std::string_view singular,
                                                  std::string_view plural) {
  return count == 1 ? singular : plural;
}

[[nodiscard]] constexpr std::string_view is_are(std::integral auto count) {
  return agreeing(count, "is", "are");
}

// "1 worker", "3 workers".
[[nodiscard]] std::string counted(std::integral auto count, std::string_view noun) {
  return std::to_string(count).append(" ").append(noun).append(agreeing(count, "", "s"));
}

// For irregular plurals: counted(2, "process", "processes") is "2 processes".
[[nodiscard]] std::string counted(std::integral auto count,
                                  std::string_view singular,
                                  std::string_view plural) {
  return std::to_string(count).append(" ").append(agreeing(count, singular, plural));
}

// "rank 3", "ranks 0, 2, 3"; shortened if there are many.
[[nodiscard]] inline std::string name_ranks(const std::vector<int>& ranks) {
  return std::string(agreeing(ranks.size(), "rank ", "ranks ")) +
         name_some(ranks, [](int rank) { return std::to_string(rank); });
}

}  // namespace muster
