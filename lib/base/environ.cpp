// SPDX-License-Identifier: Apache-2.0
#include "base/environ.hpp"

#include <utility>

namespace muster {

Environ::Environ(std::map<std::string, std::string, std::less<>> variables)
    : variables_(std::move(variables)) {}

Environ Environ::from_block(const char* const* block) {
  Environ out;
  for (; block != nullptr && *block != nullptr; ++block) {
    const std::string_view word = *block;
    const auto at = word.find('=');
    if (at != std::string_view::npos && at > 0) {
      out.variables_.emplace(word.substr(0, at), word.substr(at + 1));
    }
  }
  return out;
}

std::optional<std::string> Environ::get(std::string_view name) const {
  const auto found = variables_.find(name);
  if (found == variables_.end()) {
    return std::nullopt;
  }
  return found->second;
}

void Environ::set(std::string_view name, std::string_view value) {
  variables_.insert_or_assign(std::string(name), std::string(value));
}

void Environ::erase(std::string_view name) {
  if (const auto found = variables_.find(name); found != variables_.end()) {
    variables_.erase(found);
  }
}

std::vector<std::string> Environ::to_block() const {
  std::vector<std::string> entries;
  entries.reserve(variables_.size());
  for (const auto& [name, value] : variables_) {
    std::string word;
    word.reserve(name.size() + value.size() + 1);
    word.append(name).append("=").append(value);
    entries.push_back(std::move(word));
  }
  return entries;
}

}  // namespace muster
