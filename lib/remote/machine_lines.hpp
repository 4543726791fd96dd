// SPDX-License-Identifier: Apache-2.0
// MachineLines: merges the output of several hosts on one console, line by line. It prints an
// unfinished line after a short pause; output of another host then starts on a new line.
// HostsLauncher has one instance for each distinct destination of its standard output and error.
// Pure.
#pragma once

#include "base/time.hpp"
#include "process/output/line_assembler.hpp"
#include "remote/repeated_messages.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace muster {

// An unfinished line, such as progress dots or a prompt, is printed after this pause.
inline constexpr Duration kUnfinishedAfter = std::chrono::milliseconds(100);

class MachineLines {
 public:
  // `terminal` means that a carriage return moves the cursor.
  MachineLines(bool terminal, RepeatedMessages& messages)
      : terminal_(terminal), messages_(messages) {}

  // Takes bytes from `host` on stream 1 or 2. Appends the text to print to `out`.
  void feed(TimePoint now, std::size_t host, int stream, std::string_view bytes, std::string& out);

  // Call when this host will send no more output.
  void finish(std::size_t host, std::string& out);

  // Call before other text is printed. Terminates an unfinished line that is on the console.
  void break_line(std::string& out);

  [[nodiscard]] std::optional<TimePoint> next_deadline() const;
  void tick(TimePoint now, std::string& out);

 private:
  using Key = std::pair<std::size_t, int>;  // host index and stream number

  struct Line {
    LineAssembler lines;
    bool is_bar = false;  // contains carriage returns, so LineAssembler handles it
    std::optional<TimePoint> show_at;
  };

  void show(const Key& key, std::string_view text, std::string& out);

  bool terminal_;
  RepeatedMessages& messages_;
  std::map<Key, Line> lines_;
  std::optional<Key> unfinished_;  // source of the unfinished line on the console
};

}  // namespace muster
