// SPDX-License-Identifier: Apache-2.0
// Makes text by others safe to print on a terminal: workers and other nodes may send anything. Used
// by the report, the roll call and musterctl. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster {

inline constexpr std::size_t kReportLineBytesMax = 200;

// Without control characters (C0 and C1), starts of escape sequences and marks that change the
// direction of text. Bytes that are no UTF-8 are escaped: \xff. Longer text is cut, "...", not in
// the middle of a character.
[[nodiscard]] std::string printable(std::string_view line,
                                    std::size_t bytes_max = kReportLineBytesMax);

// Each line of a text of several.
[[nodiscard]] std::string printable_lines(std::string_view text, std::size_t line_bytes_max);

// Bytes that are no UTF-8 are escaped, all others stay: names of files and hosts are any bytes.
[[nodiscard]] std::string as_utf8(std::string_view text);

// Text of several lines, or JSON, whose C0 controls are escaped or wanted: without C1 controls and
// marks that change the direction of text. Bytes that are no UTF-8 are escaped.
[[nodiscard]] std::string without_hidden_marks(std::string_view text);

// "0, 2, 3 and 5 more": at most so many things are named.
inline constexpr std::size_t kNamesMax = 8;

template <class Range, class Describe>
[[nodiscard]] std::string name_some(const Range& things,
                                    Describe describe_one,
                                    std::size_t more = 0) {
  std::string out;
  std::size_t count = 0;
  for (const auto& thing : things) {
    if (count < kNamesMax) {
      out += (count == 0 ? "" : ", ") + describe_one(thing);
    }
    ++count;
  }
  const std::size_t unnamed = more + (count > kNamesMax ? count - kNamesMax : 0);
  if (unnamed > 0) {
    out += " and " + std::to_string(unnamed) + " more";
  }
  return out;
}

}  // namespace muster
