// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/decimal.hpp"

#include <charconv>

namespace muster {

std::optional<std::int64_t> leading_decimal(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\n\v\f\r");
  if (first == std::string_view::npos) {
    return std::nullopt;
  }
  text.remove_prefix(first);
  // from_chars does not accept a plus sign, so skip it. strtoll rejects a second sign after the
  // plus sign, but from_chars would accept a minus sign.
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) {
      return std::nullopt;
    }
  }
  std::int64_t number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  return result.ec == std::errc{} ? std::optional(number) : std::nullopt;
}

DecimalText::DecimalText(std::int64_t number) {
  const auto result = std::to_chars(text_.data(), text_.data() + text_.size(), number);
  size_ = static_cast<std::size_t>(result.ptr - text_.data());
}

}  // namespace muster
