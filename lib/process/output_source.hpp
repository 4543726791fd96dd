// SPDX-License-Identifier: Apache-2.0
// OutputSource: one stream of one worker on its way to the console: a pipe that it writes to, or
// a file that it writes and we follow. Owned by OutputPump, which decides when to read.
#pragma once

#include "base/fd.hpp"
#include "process/console_sink.hpp"
#include "process/line_assembler.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace muster {

// A file that lines of several workers go to; written when a chunk has been taken.
struct SharedFile {
  UniqueFd fd;
  std::string buffer;

  void flush();
};

// The last bytes of a stream, at most kStderrTailBytesMax, from the start of a line.
class TailKeeper {
 public:
  void add(std::string_view bytes);
  [[nodiscard]] std::string lines() const;

 private:
  std::string kept_;
  bool cut_ = false;
};

class OutputSource final : public Watcher {
 public:
  enum class Kind { pipe, file };

  struct Setup {
    int local_rank = 0;
    int stream = 1;
    Kind kind = Kind::pipe;
    UniqueFd fd;           // non-blocking where it is a pipe
    bool sparing = false;  // of a file: closed between two readings, for want of descriptors
    std::string path;      // of a file, to watch it
    LineStyle style;
    ConsoleSink* sink = nullptr;
    LineStyle filtered_style;
    SharedFile* filtered = nullptr;
    std::function<void(OutputSource&)> on_ready;  // a pipe has something
  };

  explicit OutputSource(Setup setup)
      : setup_(std::move(setup)), lines_(setup_.style), filtered_lines_(setup_.filtered_style) {}

  void on_ready() override { setup_.on_ready(*this); }

  [[nodiscard]] const Setup& setup() const { return setup_; }

  [[nodiscard]] int fd() const { return setup_.fd.get(); }

  [[nodiscard]] ConsoleSink& sink() const { return *setup_.sink; }

  // Before and after reading: a sparing source holds a descriptor in between only. False: it cannot
  // be opened now.
  [[nodiscard]] bool open();
  void close_if_sparing();

  // Nobody shares the place: bytes are passed on at once, prompts without a newline too.
  void pass_everything() { raw_ = true; }

  // The console takes no more: what comes from now on is counted instead of shown, the unfinished
  // line as well.
  void hide();

  // Whether its bytes are wanted elsewhere too: by a filtered file, or for the tail of a pipe.
  [[nodiscard]] bool is_read_in_full() const {
    return setup_.filtered != nullptr || setup_.kind == Kind::pipe;
  }

  void take(std::string_view bytes);
  void drained();  // nothing more for now
  void finish();   // nothing more at all

  // How many bytes could be read now.
  [[nodiscard]] std::size_t available() const;

  [[nodiscard]] std::string tail() const { return tail_.lines(); }

  // Bytes so far.
  [[nodiscard]] std::uint64_t taken() const { return taken_; }

 private:
  void flush() const;

  Setup setup_;
  LineAssembler lines_;
  LineAssembler filtered_lines_;
  TailKeeper tail_;
  bool raw_ = false;
  bool hidden_ = false;
  std::uint64_t taken_ = 0;
  off_t offset_ = 0;  // of a sparing source that is closed
};

// Opens for writing from the start, with the folders on the way. Errors: not_possible, with path.
[[nodiscard]] Result<UniqueFd> open_output_file(const std::string& path);

// The last whole lines of a file, at most kStderrTailBytesMax bytes.
[[nodiscard]] std::string tail_of_file(const std::string& path);

}  // namespace muster
