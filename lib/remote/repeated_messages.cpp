// SPDX-License-Identifier: Apache-2.0
#include "remote/repeated_messages.hpp"

namespace muster {
namespace {

constexpr std::string_view kBegin = "muster: ";
constexpr std::string_view kContinued = "  ";

constexpr std::string_view kInterrupted = "muster: interrupted by ";

// Removes the sender's pid. The pid is different on each host, so it would make identical messages
// look different.
std::string_view without_sender(std::string_view line) {
  const auto sender = line.find(" from pid ");
  return line.starts_with(kInterrupted) ? line.substr(0, sender) : line;
}

}  // namespace

void RepeatedMessages::hide_interruption(std::string_view signal) {
  hidden_ = std::string(kInterrupted) + std::string(signal);
}

bool RepeatedMessages::is_new(std::size_t host, std::string_view line) {
  if (!hidden_.empty() && line.starts_with(hidden_)) {
    return false;
  }
  const auto known = first_.find(line);
  if (known != first_.end()) {
    return known->second == host;
  }
  if (first_.size() < kRememberedMax) {
    first_.emplace(line, host);
  }
  return true;
}

void RepeatedMessages::take(std::size_t host, std::string_view lines, std::string& out) {
  while (!lines.empty()) {
    const auto newline = lines.find('\n');
    const auto length = newline == std::string_view::npos ? lines.size() : newline + 1;
    const std::string_view line = lines.substr(0, length);
    lines.remove_prefix(length);
    if (line.starts_with(kBegin)) {
      if (is_new(host, without_sender(line))) {
        skipping_.erase(host);
      } else {
        skipping_.insert(host);
      }
    } else if (!line.starts_with(kContinued)) {
      skipping_.erase(host);
    }
    if (!skipping_.contains(host)) {
      out += line;
    }
  }
}

}  // namespace muster
