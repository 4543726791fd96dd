// SPDX-License-Identifier: Apache-2.0
#include "base/printable.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>

namespace muster {
namespace {

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 1;
};

std::uint32_t byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

// The lowest code point for each encoded length. Overlong encodings are invalid.
constexpr std::array<std::uint32_t, 5> kLowestCode{0, 0, 0x80, 0x800, 0x10000};

bool is_character(std::uint32_t code, std::size_t bytes) {
  const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
  return code >= kLowestCode.at(bytes) && code <= 0x10ffff && !is_surrogate;
}

// The first character of a UTF-8 string. None if it is invalid or truncated.
std::optional<Character> first_character(std::string_view text) {
  const std::uint32_t lead = byte_at(text, 0);
  const std::size_t bytes = lead < 0x80   ? 1
                            : lead < 0xc2 ? 0
                            : lead < 0xe0 ? 2
                            : lead < 0xf0 ? 3
                            : lead < 0xf5 ? 4
                                          : 0;
  if (bytes == 0 || bytes > text.size()) {
    return std::nullopt;
  }
  std::uint32_t code = bytes == 1 ? lead : lead & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte_at(text, i) & 0xc0U) != 0x80U) {
      return std::nullopt;
    }
    code = (code << 6U) | (byte_at(text, i) & 0x3fU);
  }
  return is_character(code, bytes) ? std::optional(Character{code, bytes}) : std::nullopt;
}

std::string escaped(std::uint32_t byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  return {'\\', 'x', kDigits[byte >> 4U], kDigits[byte & 0xfU]};
}

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};

// C1 controls, which some terminals treat like escape sequences, and bidirectional marks, which can
// make one line look like another.
constexpr std::array<Range, 5> kUnwanted{
    {{0x80, 0x9f}, {0x61c, 0x61c}, {0x200e, 0x200f}, {0x202a, 0x202e}, {0x2066, 0x2069}}};

bool is_control(std::uint32_t code) {
  return (code < 0x20 && code != '\t') || code == 0x7f;
}

bool is_unwanted(std::uint32_t code) {
  return std::ranges::any_of(
      kUnwanted, [code](const Range& range) { return code >= range.first && code <= range.last; });
}

// Consumes characters from `text` until the input or the output would exceed `bytes_max`. Escapes
// invalid bytes and omits characters for which `drops` returns true.
template <class Drop>
std::string without(std::string_view& text, Drop drops, std::size_t bytes_max) {
  std::string out;
  const std::size_t whole = text.size();
  while (!text.empty()) {
    const auto character = first_character(text);
    const std::size_t bytes = character ? character->bytes : 1;
    std::string piece = character ? std::string(text.substr(0, bytes)) : escaped(byte_at(text, 0));
    if (character && drops(character->code)) {
      piece.clear();
    }
    if (whole - text.size() + bytes > bytes_max || out.size() + piece.size() > bytes_max) {
      break;
    }
    out += piece;
    text.remove_prefix(bytes);
  }
  return out;
}

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

}  // namespace

std::string printable(std::string_view line, std::size_t bytes_max) {
  const std::string out = without(
      line, [](std::uint32_t code) { return is_control(code) || is_unwanted(code); }, bytes_max);
  return line.empty() ? out : out + "...";
}

std::string printable_in_line(std::string_view text, std::size_t bytes_max) {
  std::string out = printable(text, bytes_max);
  std::ranges::replace(out, '\t', ' ');
  return out;
}

std::string printable_lines(std::string_view text, std::size_t line_bytes_max) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    out += printable(text.substr(at, end - at), line_bytes_max);
    out += end < text.size() ? "\n" : "";
    at = end + 1;
  }
  return out;
}

std::string as_utf8(std::string_view text) {
  return without(
      text, [](std::uint32_t) { return false; }, kNoLimit);
}

std::string without_hidden_marks(std::string_view text) {
  return without(text, is_unwanted, kNoLimit);
}

}  // namespace muster
