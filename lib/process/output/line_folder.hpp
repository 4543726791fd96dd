// SPDX-License-Identifier: Apache-2.0
// LineFolder: merges equal lines of several workers that arrive within a short time into one line:
// "[ranks 0-7] loading checkpoint". Lines that differ only in numbers show the ranges. Each line is
// held for at most kFoldTime. Keeps the order of each worker's lines. Pure; used by FoldedSink.
#pragma once

#include "base/time.hpp"
#include "process/output/folded_line.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// A line waits this long for the same line of other workers.
inline constexpr Duration kFoldTime = std::chrono::milliseconds(50);

// Longer lines are shown at once and never folded.
inline constexpr std::size_t kFoldedLineBytesMax = std::size_t{4} * 1024;

// If more is held, the oldest lines are shown early.
inline constexpr std::size_t kHeldLinesMax = 8192;
inline constexpr std::size_t kHeldBytesMax = std::size_t{1024} * 1024;

class LineFolder {
 public:
  // `colours`: the label of a folded line is bold.
  explicit LineFolder(bool colours) : colours_(colours) {}

  // A stream of this worker begins. `label` precedes those of its lines that are not folded.
  void open(int local_rank, int rank, std::string label);

  // A stream of this worker ends. Later lines do not wait for it.
  void close(int local_rank);

  // Takes one line, without its newline. All functions append the lines to show to `out`.
  void add(int local_rank, std::string_view line, TimePoint now, std::string& out);

  // Shows text that cannot be folded, such as a progress bar, after the worker's held lines.
  void pass(int local_rank, std::string_view text, bool labelled, std::string& out);

  // Shows the lines that were held for kFoldTime, and those that all workers have printed.
  void emit_due(TimePoint now, std::string& out);

  void emit_all(std::string& out);

  [[nodiscard]] bool empty() const { return held_.empty(); }

 private:
  struct Writer {
    int rank = 0;
    std::string label;
    int streams = 0;         // open streams
    std::uint64_t next = 0;  // number of the first held line that this worker may join
  };

  struct Held {
    FoldedLine line;
    std::vector<int> writers;  // local ranks, in the order in which they joined
    TimePoint since;
    std::uint64_t previous = 0;  // number of the line that had this line's slot before
  };

  static constexpr std::size_t kSlots = 4096;

  [[nodiscard]] std::uint64_t end() const { return first_ + held_.size(); }

  [[nodiscard]] Held& held(std::uint64_t number) {
    return held_[static_cast<std::size_t>(number - first_)];
  }

  [[nodiscard]] bool join(std::uint64_t number, int local_rank, std::string_view line);
  [[nodiscard]] bool join_any(int local_rank, std::string_view line);
  [[nodiscard]] std::uint64_t find(std::uint64_t from, std::size_t hash);
  void hold(int local_rank, TimePoint now);
  void emit_first(std::string& out);
  void append_label(const Held& line, std::string& out);

  bool colours_;
  std::vector<Writer> writers_;  // by local rank
  std::size_t open_writers_ = 0;
  std::deque<Held> held_;    // in the order in which they are shown
  std::vector<Held> spare_;  // emitted lines, whose memory is used again
  Held fresh_;               // the line that is being added
  // Lines are numbered from 1, so a slot with 0 is free.
  std::uint64_t first_ = 1;  // number of the first held line
  std::size_t held_bytes_ = 0;
  std::array<std::uint64_t, kSlots> slots_{};  // number of the last line with this hash
};

}  // namespace muster
