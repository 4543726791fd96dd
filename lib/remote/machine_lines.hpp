// SPDX-License-Identifier: Apache-2.0
// MachineLines: the output of several machines on one console, as whole lines. An unfinished line
// is shown after a short pause; another machine's text then begins on a new line. Used by
// HostsLauncher, one for each place that its standard output and error lead to. Pure.
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

// A line without an end is shown after this pause: dots, a prompt.
inline constexpr Duration kUnfinishedAfter = std::chrono::milliseconds(100);

class MachineLines {
 public:
  // `terminal`: a carriage return moves the cursor.
  MachineLines(bool terminal, RepeatedMessages& messages)
      : terminal_(terminal), messages_(messages) {}

  // Bytes that machine `host` wrote on stream 1 or 2. Appends to `out` what is to be shown.
  void feed(TimePoint now, std::size_t host, int stream, std::string_view bytes, std::string& out);

  // There is nothing more of this machine.
  void finish(std::size_t host, std::string& out);

  // Other text follows: ends an unfinished line that is shown.
  void break_line(std::string& out);

  [[nodiscard]] std::optional<TimePoint> next_deadline() const;
  void tick(TimePoint now, std::string& out);

 private:
  using Key = std::pair<std::size_t, int>;  // host and stream

  struct Line {
    LineAssembler lines;
    bool is_bar = false;  // it holds carriage returns: LineAssembler moves it
    std::optional<TimePoint> show_at;
  };

  void show(const Key& key, std::string_view text, std::string& out);

  bool terminal_;
  RepeatedMessages& messages_;
  std::map<Key, Line> lines_;
  std::optional<Key> unfinished_;  // whose line is shown without an end
};

}  // namespace muster
