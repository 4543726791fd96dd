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
constexpr std::array<std::string_view, 15> kLostTexts{
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

// Per exception: NCCL's messages have several lines.
constexpr std::size_t kLostMessageLinesMax = 4;
// For a program that is not written in Python.
constexpr std::size_t kLostLinesWithoutTraceback = 4;

std::vector<std::string> messages_of(std::string_view text) {
  std::vector<std::string> messages;
  for (const auto& message : exception_messages(split(text, '\n'), kLostMessageLinesMax)) {
    messages.push_back(join(message, "\n"));
  }
  return messages;
}

std::string last_lines_of(std::string_view text) {
  const std::vector<std::string> lines = lines_with_text(text);
  const std::size_t skipped = lines.size() - std::min(lines.size(), kLostLinesWithoutTraceback);
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
      kLostTexts, [&](std::string_view known) { return lower.find(known) != std::string::npos; });
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
