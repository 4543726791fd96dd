// SPDX-License-Identifier: Apache-2.0
// The table of ranks on the screen of "musterctl top": one line per rank, sorted and scrolled. The
// JSON is untrusted; the lines are safe to print. Pure.
#pragma once

#include "status/json.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// What the user has chosen with keys.
struct TopView {
  std::string sort = "rank";  // title of a column
  bool descending = false;
  std::size_t first = 0;  // number of rows that are scrolled off
  bool operator==(const TopView&) const = default;
};

// The titles of the columns that fit, by position.
[[nodiscard]] std::vector<std::string> rank_columns(const Json& status, std::size_t columns);

// A header and at most `rows` - 1 ranks. Empty without ranks, or if `rows` is less than 2.
[[nodiscard]] std::vector<std::string> rank_table(const Json& status,
                                                  const TopView& view,
                                                  std::size_t rows,
                                                  std::size_t columns);

// Truncates a line to this number of columns, with "…" at the end, without splitting a character.
[[nodiscard]] std::string shortened(const std::string& line, std::size_t columns);

}  // namespace muster
