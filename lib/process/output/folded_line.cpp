// SPDX-License-Identifier: Apache-2.0
#include "process/output/folded_line.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <tuple>

namespace muster {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_hex_digit(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool has_digit(std::string_view line, std::size_t at) {
  return at < line.size() && is_digit(line[at]);
}

std::size_t digits_end(std::string_view line, std::size_t at) {
  while (has_digit(line, at)) {
    ++at;
  }
  return at;
}

// The end of "0x7f12" if it begins at `at`, else `at`.
std::size_t hex_end(std::string_view line, std::size_t at) {
  if (at + 2 >= line.size() || line[at] != '0' || (line[at + 1] != 'x' && line[at + 1] != 'X') ||
      !is_hex_digit(line[at + 2])) {
    return at;
  }
  for (at += 2; at < line.size() && is_hex_digit(line[at]);) {
    ++at;
  }
  return at;
}

// A minus sign, not a hyphen as in "2026-11-29".
bool is_sign(std::string_view line, std::size_t at) {
  if (line[at] != '-' || !has_digit(line, at + 1)) {
    return false;
  }
  const char before = at == 0 ? ' ' : line[at - 1];
  return !is_digit(before) && !is_letter(before) && before != '-' && before != '_' && before != '.';
}

// Versions and IP addresses, such as 1.2.3, consist of whole numbers.
std::size_t fraction_end(std::string_view line, std::size_t at) {
  if (at >= line.size() || line[at] != '.' || !has_digit(line, at + 1)) {
    return at;
  }
  const auto end = digits_end(line, at + 1);
  return end < line.size() && line[end] == '.' && has_digit(line, end + 1) ? at : end;
}

std::size_t exponent_end(std::string_view line, std::size_t at) {
  if (at >= line.size() || (line[at] != 'e' && line[at] != 'E')) {
    return at;
  }
  const bool has_sign = at + 1 < line.size() && (line[at + 1] == '-' || line[at + 1] == '+');
  const auto first = at + (has_sign ? 2 : 1);
  const auto end = digits_end(line, first);
  const bool is_word = end < line.size() && is_letter(line[end]);
  return end == first || is_word ? at : end;
}

double value_of(std::string_view number) {
  double value = 0;
  std::from_chars(number.data(), number.data() + number.size(), value);
  return value;
}

// Compares by value. Numbers of equal value ("1.0", "1.00"), and those that no double can represent
// exactly, are then compared by text.
bool is_less(std::string_view left, std::string_view right) {
  return std::tuple(value_of(left), left.size(), left) <
         std::tuple(value_of(right), right.size(), right);
}

std::string_view part(std::string_view line, const NumberSpan& span) {
  return line.substr(span.begin, span.end - span.begin);
}

}  // namespace

std::size_t number_end(std::string_view line, std::size_t at) {
  MUSTER_CHECK(at < line.size());
  const auto first = at + (is_sign(line, at) ? 1 : 0);
  if (!is_digit(line[first]) || hex_end(line, first) > first) {
    return at;
  }
  const bool after_dot = at >= 2 && line[at - 1] == '.' && is_digit(line[at - 2]);
  const auto whole = digits_end(line, first);
  return after_dot ? whole : exponent_end(line, fraction_end(line, whole));
}

void FoldedLine::start(std::string_view line) {
  text_.assign(line);
  numbers_.clear();
  ranges_.clear();
  hash_ = 0;
  std::size_t literal = 0;  // where the text since the last number begins
  const auto add_literal = [&](std::size_t end) {
    hash_ = hash_ * 31 + std::hash<std::string_view>{}(line.substr(literal, end - literal));
  };
  // Numbers in an escape sequence are colours, for example.
  const bool has_escape = line.find('\x1b') != std::string_view::npos;
  for (std::size_t at = has_escape ? line.size() : 0;
       at < line.size() && numbers_.size() < kFoldedNumbersMax;) {
    if (const auto end = number_end(line, at); end > at) {
      add_literal(at);
      numbers_.push_back({at, end});
      at = end;
      literal = end;
    } else {
      at = std::max(at + 1, hex_end(line, at));
    }
  }
  add_literal(line.size());
}

bool FoldedLine::join(std::string_view line) {
  if (line == text_) {
    return true;
  }
  if (numbers_.empty() || !find_numbers(line)) {
    return false;
  }
  widen(line);
  return true;
}

// Fills found_. False if the text between the numbers differs.
bool FoldedLine::find_numbers(std::string_view line) {
  const std::string_view text = text_;
  found_.clear();
  std::size_t at = 0;
  std::size_t from = 0;  // in text_
  for (const NumberSpan& number : numbers_) {
    const auto literal = text.substr(from, number.begin - from);
    if (!line.substr(at).starts_with(literal) || at + literal.size() >= line.size()) {
      return false;
    }
    at += literal.size();
    const auto end = number_end(line, at);
    if (end == at) {
      return false;
    }
    found_.push_back({at, end});
    at = end;
    from = number.end;
  }
  return line.substr(at) == text.substr(from);
}

void FoldedLine::widen(std::string_view line) {
  if (ranges_.empty()) {
    for (const NumberSpan& number : numbers_) {
      const std::string own(part(text_, number));
      ranges_.push_back({own, own});
    }
  }
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    const auto number = part(line, found_[i]);
    Range& range = ranges_[i];
    if (number == range.low || number == range.high) {
      continue;
    }
    if (is_less(number, range.low)) {
      range.low = number;
    } else if (is_less(range.high, number)) {
      range.high = number;
    }
  }
}

void FoldedLine::append_to(std::string& out) const {
  const std::string_view text = text_;
  std::size_t from = 0;
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    const Range& range = ranges_[i];
    out.append(text.substr(from, numbers_[i].begin - from)).append(range.low);
    if (range.high != range.low) {
      out.append("..").append(range.high);
    }
    from = numbers_[i].end;
  }
  out.append(text.substr(from));
}

}  // namespace muster
