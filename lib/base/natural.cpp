// SPDX-License-Identifier: Apache-2.0
#include "base/natural.hpp"

#include <algorithm>

namespace muster {
namespace {

bool is_digit(char c) {
  return '0' <= c && c <= '9';
}

// Compares unsigned bytes, so that non-ASCII letters sort last on every platform.
unsigned char lower(char c) {
  return static_cast<unsigned char>('A' <= c && c <= 'Z' ? c - 'A' + 'a' : c);
}

// Removes leading digits from `text` and returns them without leading zeros.
std::string_view take_number(std::string_view& text) {
  const auto size = std::min(text.find_first_not_of("0123456789"), text.size());
  std::string_view digits = text.substr(0, size);
  text.remove_prefix(size);
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

std::strong_ordering by_value(std::string_view left, std::string_view right) {
  const auto length = left.size() <=> right.size();
  return length != 0 ? length : left <=> right;
}

// Compares and removes the first number or letter of both texts.
std::strong_ordering compare_front(std::string_view& left, std::string_view& right) {
  if (is_digit(left.front()) && is_digit(right.front())) {
    const std::string_view number = take_number(left);
    return by_value(number, take_number(right));
  }
  const auto order = lower(left.front()) <=> lower(right.front());
  left.remove_prefix(1);
  right.remove_prefix(1);
  return order;
}

}  // namespace

std::strong_ordering natural_order(std::string_view left, std::string_view right) {
  std::string_view left_rest = left;
  std::string_view right_rest = right;
  while (!left_rest.empty() && !right_rest.empty()) {
    if (const auto order = compare_front(left_rest, right_rest); order != 0) {
      return order;
    }
  }
  const auto rest = left_rest.size() <=> right_rest.size();
  return rest != 0 ? rest : left <=> right;
}

bool natural_less(std::string_view left, std::string_view right) {
  return natural_order(left, right) < 0;
}

}  // namespace muster
