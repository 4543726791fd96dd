// SPDX-License-Identifier: Apache-2.0
// The text of a program in PTX as words, numbers and marks, each with its line; comments are left
// out. Used by ptx_parse. Values that refer to the text; pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::fake {

struct Word {
  enum class Kind { name, number, mark, end };

  Kind kind = Kind::end;
  std::string_view text;
  unsigned line = 0;
};

// "\"text\"", for errors.
[[nodiscard]] std::string quoted(std::string_view text);
// The last one is an end. A character that cannot be there is a mark, which no rule wants.
[[nodiscard]] std::vector<Word> split_words(std::string_view text);

// Goes through the words, and keeps the first error.
class WordReader {
 public:
  explicit WordReader(std::string_view text) : words_(split_words(text)) {}

  [[nodiscard]] const Word& peek() const { return words_[at_]; }

  Word next();
  // Goes past the word if it is this one.
  bool skip(std::string_view text);
  // False, and an error, if it is another one.
  bool need(std::string_view text);
  bool need(Word::Kind kind, std::string_view& text);
  // Always false; "line 12: <words>", of the newest word that was taken.
  bool fail(const std::string& words);

  [[nodiscard]] const std::string& error() const { return error_; }

  [[nodiscard]] unsigned line() const { return line_; }

 private:
  std::vector<Word> words_;
  std::size_t at_ = 0;
  unsigned line_ = 1;
  std::string error_;
};

}  // namespace muster::fake
