// SPDX-License-Identifier: Apache-2.0
#include "agent/words.hpp"

namespace muster {

std::string printable(std::string_view line, std::size_t bytes_max) {
  std::string out;
  for (const char c : line.substr(0, bytes_max)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\t' || (byte >= 0x20 && byte != 0x7f)) {
      out += c;
    }
  }
  if (line.size() > bytes_max) {
    while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xc0) == 0x80) {
      out.pop_back();
    }
    if (!out.empty() && (static_cast<unsigned char>(out.back()) & 0x80) != 0) {
      out.pop_back();
    }
    out += "...";
  }
  return out;
}

}  // namespace muster
