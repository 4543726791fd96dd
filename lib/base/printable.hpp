// SPDX-License-Identifier: Apache-2.0
// Makes untrusted text safe to print on a terminal, because workers and other nodes may send
// anything. Used by the report, the roll call and musterctl. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster {

inline constexpr std::size_t kReportLineBytesMax = 200;

// Removes control characters (C0, and C1, which can start escape sequences) and bidirectional
// marks. Escapes bytes that are not UTF-8 (\xff). Truncates long text with "...", never inside a
// character.
[[nodiscard]] std::string printable(std::string_view line,
                                    std::size_t bytes_max = kReportLineBytesMax);

// Like printable(), but also replaces tabs with spaces. For text in a one-line error.
[[nodiscard]] std::string printable_in_line(std::string_view text, std::size_t bytes_max);

// Applies printable() to each line of a text.
[[nodiscard]] std::string printable_lines(std::string_view text, std::size_t line_bytes_max);

// Escapes bytes that are not UTF-8 and keeps all others. File and host names may contain any bytes.
[[nodiscard]] std::string as_utf8(std::string_view text);

// For multi-line text, or JSON, where C0 controls are escaped or intended. Removes C1 controls and
// bidirectional marks, and escapes bytes that are not UTF-8.
[[nodiscard]] std::string without_hidden_marks(std::string_view text);

// The maximum number of names in a list such as "0, 2, 3 and 5 more".
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
