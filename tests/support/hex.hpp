// SPDX-License-Identifier: Apache-2.0
// Readable hexadecimal bytes for tests: "00 CEF7853C 'text'". Blanks do not matter, and text in
// single quotes represents itself.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

namespace muster::testing {

inline std::string from_hex(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == ' ' || text[i] == '\n') {
      ++i;
    } else if (text[i] == '\'') {
      const auto end = text.find('\'', i + 1);
      out.append(text.substr(i + 1, end - i - 1));
      i = end + 1;
    } else {
      const std::string digits(text.substr(i, 2));
      out.push_back(static_cast<char>(std::strtoul(digits.c_str(), nullptr, 16)));
      i += 2;
    }
  }
  return out;
}

inline std::string to_hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out.push_back(kDigits[byte >> 4U]);
    out.push_back(kDigits[byte & 15U]);
  }
  return out;
}

}  // namespace muster::testing
