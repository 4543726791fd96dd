// SPDX-License-Identifier: Apache-2.0
// Counters in the store's format, which is decimal text in the value of a key. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace muster {

// The number at the start of `text`, parsed like C's strtoll in base 10: leading whitespace and
// trailing characters are ignored. nullopt if there are no digits or the number does not fit.
[[nodiscard]] std::optional<std::int64_t> leading_decimal(std::string_view text);

// Formats a number as decimal text without allocating memory.
class DecimalText {
 public:
  explicit DecimalText(std::int64_t number);

  [[nodiscard]] std::string_view view() const { return {text_.data(), size_}; }

 private:
  std::array<char, 24> text_{};
  std::size_t size_ = 0;
};

}  // namespace muster
