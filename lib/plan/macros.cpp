// SPDX-License-Identifier: Apache-2.0
#include "plan/macros.hpp"

#include <cctype>

namespace muster {
namespace {

bool starts_name(char c) {
  return c == '_' || std::isalpha(static_cast<unsigned char>(c)) != 0;
}

// The longest name ([_a-z][_a-z0-9]*, any case, ASCII) at the start of the text.
std::string_view leading_name(std::string_view text) {
  if (text.empty() || !starts_name(text.front())) {
    return {};
  }
  std::size_t length = 1;
  while (length < text.size() && (starts_name(text[length]) ||
                                  std::isdigit(static_cast<unsigned char>(text[length])) != 0)) {
    ++length;
  }
  return text.substr(0, length);
}

// The text after a '$': the macro's name and the length of the reference in characters.
struct Reference {
  std::string_view name;
  std::size_t length = 0;
};

Reference reference_at(std::string_view text) {
  if (!text.starts_with('{')) {
    const std::string_view name = leading_name(text);
    return {name, name.size()};
  }
  const std::string_view name = leading_name(text.substr(1));
  const bool closed =
      !name.empty() && name.size() + 1 < text.size() && text[name.size() + 1] == '}';
  return closed ? Reference{name, name.size() + 2} : Reference{};
}

}  // namespace

std::string expand_macros(std::string_view text, const Macros& macros, MacroSyntax syntax) {
  const bool braces_only = syntax == MacroSyntax::braces;
  std::string out;
  while (!text.empty()) {
    const auto dollar = text.find('$');
    out.append(text.substr(0, dollar));
    if (dollar == std::string_view::npos) {
      break;
    }
    text.remove_prefix(dollar + 1);
    if (!braces_only && text.starts_with('$')) {
      out += '$';
      text.remove_prefix(1);
      continue;
    }
    const bool is_reference = !braces_only || text.starts_with('{');
    const Reference reference = is_reference ? reference_at(text) : Reference{};
    const auto macro = macros.find(reference.name);
    if (macro != macros.end()) {
      out += macro->second;
    } else {
      out += '$';
      out.append(text.substr(0, reference.length));
    }
    text.remove_prefix(reference.length);
  }
  return out;
}

}  // namespace muster
