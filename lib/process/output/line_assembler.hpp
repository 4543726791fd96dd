// SPDX-License-Identifier: Apache-2.0
// LineAssembler: splits the bytes of one worker's stream into whole lines for a console or file
// that several workers share. Pure. Used by output_source. Bytes pass through unchanged except for
// the prefix, a newline after an unterminated last line, and the two cases described at
// kLineBytesMax and `progress`.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster {

// Longer lines are printed in pieces of this size, each terminated by a newline.
inline constexpr std::size_t kLineBytesMax = std::size_t{256} * 1024;

struct LineStyle {
  std::string prefix;                // printed before each line
  std::vector<std::string> filters;  // keep only lines that contain a filter; empty keeps all
  bool terminal = false;             // a carriage return moves the cursor

  // Replaces each kPidMark in the prefix with the pid.
  void set_pid(int pid);
};

class LineAssembler {
 public:
  explicit LineAssembler(LineStyle style) : style_(std::move(style)) {}

  void set_pid(int pid) { style_.set_pid(pid); }

  // Appends to `out` the lines that `bytes` completes.
  void feed(std::string_view bytes, std::string& out);

  // Call if no more data is available for now. Appends everything up to the last carriage return,
  // so that progress bars advance. On a terminal the bytes are unchanged. Elsewhere they become a
  // separate line, but only if they are printable text.
  void progress(std::string& out);

  // The unfinished line.
  [[nodiscard]] std::string_view partial() const { return partial_; }

  // Call if no more data is available for now and the user may have to answer a prompt. Appends the
  // unfinished line. The rest of the line follows without a prefix.
  void prompt(std::string& out);

  // Drops the unfinished line. Returns its size.
  std::size_t drop_partial() { return std::exchange(partial_, {}).size(); }

  // Call at end of stream. Appends the unfinished line and a newline.
  void finish(std::string& out);

 private:
  void emit(std::string_view line, std::string& out);
  void emit_all(std::string_view lines, std::string& out);
  void keep(std::string_view rest, std::string& out);
  [[nodiscard]] bool wanted(std::string_view line) const;

  LineStyle style_;
  std::string partial_;
  bool begun_ = false;  // prompt() has printed the start of the line
};

}  // namespace muster
