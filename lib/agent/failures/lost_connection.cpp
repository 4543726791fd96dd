// SPDX-License-Identifier: Apache-2.0
#include "agent/failures/lost_connection.hpp"

#include "agent/failures/traceback.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <vector>

namespace muster {
namespace {

// All texts are in lower case. Timeouts are not listed, because they do not reveal which rank
// hangs.
constexpr std::array<std::string_view, 15> kTexts{
    "connection closed by peer",     // gloo
    "connection reset by peer",      // ECONNRESET
    "broken pipe",                   // EPIPE
    "connection was likely closed",  // PyTorch's TCPStore
    "connection aborted",            // ECONNABORTED
    "software caused connection abort",
    "remote process exited or there was a network error",  // from PyTorch's NCCL backend
    "ncclremoteerror",                                     // name of NCCL's error code
    "connection closed by remote peer",                    // NCCL
    "socket closed by peer",
    "peer_failed",                    // our collective library
    "peerfailed: ",                   // our library's Python exception
    "closed its connection to rank",  // our collective library
    ") has died; it ",                // our library's message without the exception's name
    "has died, or its host cannot be reached"};

constexpr std::size_t kMessageLinesMax = 4;  // per exception; NCCL's messages have several lines
constexpr std::size_t kLinesWithoutTraceback = 4;  // for a program that is not written in Python

// The message of the exception whose frames begin at `at`.
std::string message_at(const std::vector<std::string>& lines, std::size_t at) {
  at = message_line(lines, at);
  std::string message;
  for (std::size_t i = at; i < std::min(at + kMessageLinesMax, lines.size()); ++i) {
    const std::string_view line = without_rank(lines[i]);
    if (line.empty() || line.find(kTracebackStart) != std::string_view::npos) {
      break;
    }
    message += std::string(line) + "\n";
  }
  return message;
}

std::vector<std::string> messages_of(std::string_view text) {
  const std::vector<std::string> lines = split(text, '\n');
  std::vector<std::string> messages;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].find(kTracebackStart) != std::string::npos) {
      messages.push_back(message_at(lines, i + 1));
    }
  }
  return messages;
}

std::string last_lines_of(std::string_view text) {
  std::vector<std::string> lines = split(text, '\n');
  std::erase_if(lines, [](const std::string& line) { return trim(line).empty(); });
  const std::size_t skipped = lines.size() - std::min(lines.size(), kLinesWithoutTraceback);
  std::string out;
  for (std::size_t i = skipped; i < lines.size(); ++i) {
    out += lines[i] + "\n";
  }
  return out;
}

}  // namespace

bool says_lost_connection(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(
      lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::any_of(
      kTexts, [&](std::string_view known) { return lower.find(known) != std::string::npos; });
}

bool is_lost_connection(const WorkerFailure& failure) {
  if (failure.spawn_error || failure.out_of_memory) {
    return false;
  }
  std::vector<std::string> messages = messages_of(failure.stderr_tail);
  if (failure.record) {
    messages.push_back(failure.record->message);
  }
  if (messages.empty()) {
    messages.push_back(last_lines_of(failure.stderr_tail));
  }
  return std::ranges::all_of(messages, says_lost_connection);
}

}  // namespace muster
