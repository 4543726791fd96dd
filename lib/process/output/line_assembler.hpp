// SPDX-License-Identifier: Apache-2.0
// LineAssembler: turns the bytes of one worker's stream, as they come, into whole lines for a
// place that several workers share. Pure. Used by output_source; bytes are never changed but for
// the prefix, a newline behind an unfinished last line, and two cases said at kLineBytesMax and
// `progress`.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster {

// A longer line is shown in pieces of this size, each ended by a newline.
inline constexpr std::size_t kLineBytesMax = std::size_t{256} * 1024;

struct LineStyle {
  std::string prefix;                // before each line
  std::vector<std::string> filters;  // only lines that contain one of them; none: all lines
  bool terminal = false;             // a carriage return moves the cursor
};

class LineAssembler {
 public:
  explicit LineAssembler(LineStyle style) : style_(std::move(style)) {}

  // Replaces each kPidMark in the prefix.
  void set_pid(int pid);

  // Appends to `out` the lines that `bytes` completes.
  void feed(std::string_view bytes, std::string& out);

  // There is nothing more for now: appends what ends with a carriage return, so that a progress
  // bar moves. On a terminal as it is; elsewhere as a line of its own, and only if it is text.
  void progress(std::string& out);

  // The unfinished line.
  [[nodiscard]] std::string_view partial() const { return partial_; }

  // There is nothing more for now, and a person is to answer: appends the unfinished line. Its rest
  // follows without a prefix.
  void prompt(std::string& out);

  // Forgets the unfinished line; how many bytes that were.
  std::size_t drop_partial() { return std::exchange(partial_, {}).size(); }

  // There is nothing more at all: appends the unfinished line, with a newline.
  void finish(std::string& out);

 private:
  void emit(std::string_view line, std::string& out);
  void emit_all(std::string_view lines, std::string& out);
  void keep(std::string_view rest, std::string& out);
  [[nodiscard]] bool wanted(std::string_view line) const;

  LineStyle style_;
  std::string partial_;
  bool begun_ = false;  // the beginning of the line was shown by prompt()
};

}  // namespace muster
