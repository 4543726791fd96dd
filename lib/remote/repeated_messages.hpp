// SPDX-License-Identifier: Apache-2.0
// RepeatedMessages: removes duplicate messages on a shared console, because every launcher of a job
// prints the same report. It drops a message that another host has already printed. A message is a
// line that starts like a muster message and the indented lines that follow it. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace muster {

class RepeatedMessages {
 public:
  // Takes whole lines from `host` and appends the new ones to `out`.
  void take(std::size_t host, std::string_view lines, std::string& out);

  // Drops the launchers' reports of this signal, because muster itself sent the signal and has
  // reported why.
  void hide_interruption(std::string_view signal);

 private:
  [[nodiscard]] bool is_new(std::size_t host, std::string_view line);

  static constexpr std::size_t kRememberedMax = 1024;

  std::map<std::string, std::size_t, std::less<>> first_;  // first host to print the message
  std::set<std::size_t> skipping_;                         // hosts whose current message is dropped
  std::string hidden_;                                     // prefix of messages to drop, or empty
};

}  // namespace muster
