// SPDX-License-Identifier: Apache-2.0
#include "config/resolve/shell_words.hpp"

#include <optional>

namespace muster {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n';
}

// Inside double quotes a backslash escapes only these characters.
bool is_escaped(char quote, char next) {
  return quote == 0 || next == '"' || next == '\\' || next == '$' || next == '`';
}

}  // namespace

Result<std::vector<std::string>> shell_words(std::string_view text) {
  std::vector<std::string> words;
  std::optional<std::string> word;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == 0 && is_blank(c)) {
      if (word) {
        words.push_back(std::move(*word));
        word.reset();
      }
      continue;
    }
    word = word.value_or("");
    if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == '\\' && quote != '\'' && i + 1 < text.size() &&
               is_escaped(quote, text[i + 1])) {
      *word += text[++i];
    } else {
      *word += c;
    }
  }
  if (quote != 0) {
    return failure(Errc::usage, "unclosed quote");
  }
  if (word) {
    words.push_back(std::move(*word));
  }
  return words;
}

}  // namespace muster
