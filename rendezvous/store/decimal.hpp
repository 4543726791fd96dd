// SPDX-License-Identifier: Apache-2.0
// Counters as the store keeps them: decimal text in the value of a key. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace muster {

// The number at the start of `text`, read as C's strtoll reads it in base 10: blanks before it and
// anything after it are ignored. None for no digits, or for a number that does not fit.
[[nodiscard]] std::optional<std::int64_t> leading_decimal(std::string_view text);

// A number as decimal text, without allocation.
class DecimalText {
 public:
  explicit DecimalText(std::int64_t number);

  [[nodiscard]] std::string_view view() const { return {text_.data(), size_}; }

 private:
  std::array<char, 24> text_{};
  std::size_t size_ = 0;
};

}  // namespace muster
