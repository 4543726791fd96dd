// SPDX-License-Identifier: Apache-2.0
#include "fakes/cuda/ptx_words.hpp"

#include <algorithm>

namespace muster::fake {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool starts_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%' ||
         c == '.';
}

bool goes_on(char c) {
  return is_digit(c) || (starts_name(c) && c != '%');
}

// How much of the text is a comment, or a blank.
std::size_t skipped(std::string_view text) {
  if (text.starts_with("//")) {
    return std::min(text.find('\n'), text.size());
  }
  if (text.starts_with("/*")) {
    const auto end = text.find("*/", 2);
    return end == std::string_view::npos ? text.size() : end + 2;
  }
  return std::string_view(" \t\r\n").contains(text.front()) ? 1 : 0;
}

}  // namespace

std::string quoted(std::string_view text) {
  return "\"" + std::string(text) + "\"";
}

std::vector<Word> split_words(std::string_view text) {
  std::vector<Word> words;
  unsigned line = 1;
  while (!text.empty()) {
    std::size_t length = skipped(text);
    if (length == 0) {
      const char first = text.front();
      length = 1;
      const bool longer = starts_name(first) || is_digit(first);
      while (longer && length < text.size() && goes_on(text[length])) {
        ++length;
      }
      const auto kind = is_digit(first) ? Word::Kind::number : Word::Kind::name;
      words.push_back({longer ? kind : Word::Kind::mark, text.substr(0, length), line});
    }
    line += static_cast<unsigned>(std::ranges::count(text.substr(0, length), '\n'));
    text.remove_prefix(length);
  }
  words.push_back({Word::Kind::end, "the end", line});
  return words;
}

Word WordReader::next() {
  const Word& word = words_[at_];
  line_ = word.line;
  if (at_ + 1 < words_.size()) {
    ++at_;
  }
  return word;
}

bool WordReader::skip(std::string_view text) {
  const bool is_it = peek().text == text && peek().kind != Word::Kind::end;
  if (is_it) {
    next();
  }
  return is_it;
}

bool WordReader::need(std::string_view text) {
  const Word word = next();
  return word.text == text || fail(quoted(text) + " is wanted, not " + quoted(word.text));
}

bool WordReader::need(Word::Kind kind, std::string_view& text) {
  const Word word = next();
  text = word.text;
  return word.kind == kind || fail(std::string(kind == Word::Kind::name ? "a name" : "a number") +
                                   " is wanted, not " + quoted(word.text));
}

bool WordReader::fail(const std::string& words) {
  if (error_.empty()) {
    error_ = "line " + std::to_string(line_) + ": " + words;
  }
  return false;
}

}  // namespace muster::fake
