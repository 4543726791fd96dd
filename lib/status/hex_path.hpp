// SPDX-License-Identifier: Apache-2.0
// Any text as a part of a request's path: its bytes in hexadecimal. Functions without state.
#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

[[nodiscard]] inline std::string to_hex(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const char byte : text) {
    out += kDigits[static_cast<unsigned char>(byte) / 16];
    out += kDigits[static_cast<unsigned char>(byte) % 16];
  }
  return out;
}

// Nullopt if the text is empty or malformed.
[[nodiscard]] inline std::optional<std::string> from_hex(std::string_view digits) {
  if (digits.empty() || digits.size() % 2 != 0) {
    return std::nullopt;
  }
  std::string out;
  for (std::size_t at = 0; at < digits.size(); at += 2) {
    const char* const end = digits.data() + at + 2;
    unsigned char byte = 0;
    if (std::from_chars(digits.data() + at, end, byte, 16).ptr != end) {
      return std::nullopt;
    }
    out += static_cast<char>(byte);
  }
  return out;
}

}  // namespace muster
