// SPDX-License-Identifier: Apache-2.0
// FoldedLine: a line that several workers have printed. Their texts differ at most in numbers, and
// the line shows the range of each such number. Pure; used by LineFolder. Value.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// The number of numbers in a line that may differ. Further ones must be equal.
inline constexpr std::size_t kFoldedNumbersMax = 64;

// Part of a line: the bytes from `begin` up to `end`.
struct NumberSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool operator==(const NumberSpan&) const = default;
};

// The end of the number that begins at `at`, which is `at` if no number begins there. Numbers are
// decimal and may have a sign, a fraction and an exponent. "0x1f" is not a number, and "1.2.3"
// consists of three whole numbers.
[[nodiscard]] std::size_t number_end(std::string_view line, std::size_t at);

class FoldedLine {
 public:
  // Starts with one worker's line, without a newline.
  void start(std::string_view line);

  // Adds the line of another worker. False if it differs in more than numbers; then nothing
  // changes.
  [[nodiscard]] bool join(std::string_view line);

  // Equal for all lines that differ only in numbers.
  [[nodiscard]] std::size_t hash() const { return hash_; }

  [[nodiscard]] std::size_t size() const { return text_.size(); }

  // Appends the line: "loss 0.51..0.53".
  void append_to(std::string& out) const;

 private:
  struct Range {
    std::string low;
    std::string high;
  };

  [[nodiscard]] bool find_numbers(std::string_view line);
  void widen(std::string_view line);

  std::string text_;  // the first line
  std::size_t hash_ = 0;
  std::vector<NumberSpan> numbers_;  // in text_
  std::vector<Range> ranges_;        // one per number; empty while all lines are equal
  std::vector<NumberSpan> found_;    // the numbers in the line that is being joined
};

}  // namespace muster
