// SPDX-License-Identifier: Apache-2.0
// Words for a terminal made of what others wrote: workers and other nodes may send anything. Used
// by the report and the roll call. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster {

inline constexpr std::size_t kReportLineBytesMax = 200;

// Without control characters and escape sequences' starts; longer ones are cut, "...", not in the
// middle of a character.
[[nodiscard]] std::string printable(std::string_view line,
                                    std::size_t bytes_max = kReportLineBytesMax);

// "0, 2, 3 and 5 more": at most so many things are named.
inline constexpr std::size_t kNamesMax = 8;

template <class Range, class Words>
[[nodiscard]] std::string name_some(const Range& things, Words words, std::size_t more = 0) {
  std::string out;
  std::size_t count = 0;
  for (const auto& thing : things) {
    if (count < kNamesMax) {
      out += (count == 0 ? "" : ", ") + words(thing);
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
