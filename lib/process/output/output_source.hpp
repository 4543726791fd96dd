// SPDX-License-Identifier: Apache-2.0
// OutputSource: one stream of one worker on its way to the console: a pipe that it writes to, or
// a file that it writes and we follow. Owned by OutputPump, which decides when to read.
#pragma once

#include "base/fd.hpp"
#include "process/output/console_sink.hpp"
#include "process/output/line_assembler.hpp"
#include "process/output/worker_file.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace muster {

// A file that lines of several workers go to; written when a chunk has been taken.
struct SharedFile {
  UniqueFd fd;
  std::string buffer;
  int why = 0;  // the first errno of a write; 0: none failed
  std::uint64_t lost_lines = 0;

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
    UniqueFd fd;                       // of a pipe: non-blocking
    std::shared_ptr<WorkerFile> file;  // of a file
    LineStyle style;
    ConsoleSink* sink = nullptr;
    bool keeps_tail = false;  // for the report of a failure
    bool is_shown = true;     // false: nothing goes to the sink
    bool prompts = false;     // what is unfinished is shown when nothing follows for now
    bool hangs_up = false;    // a pipe that is closed when the reader of the sink leaves
    LineStyle filtered_style;
    SharedFile* filtered = nullptr;
    std::function<void(OutputSource&)> on_ready;  // a pipe has something
  };

  explicit OutputSource(Setup setup)
      : setup_(std::move(setup)), lines_(setup_.style), filtered_lines_(setup_.filtered_style) {}

  void on_ready() override { setup_.on_ready(*this); }

  [[nodiscard]] const Setup& setup() const { return setup_; }

  // Of its pipe; -1: it is a file.
  [[nodiscard]] int fd() const { return setup_.fd.get(); }

  [[nodiscard]] ConsoleSink& sink() const { return *setup_.sink; }

  [[nodiscard]] bool has_room() const { return !setup_.is_shown || sink().has_room(); }

  // The worker's next write fails, as one to our own stream would.
  void hang_up() { setup_.fd.reset(); }

  // For the prefix of its lines. Called before the first read.
  void set_pid(int pid) {
    lines_.set_pid(pid);
    filtered_lines_.set_pid(pid);
  }

  // It carries standard error as well.
  void keep_tail() { setup_.keeps_tail = true; }

  // Before and after reading. False: its file cannot be opened now.
  [[nodiscard]] bool open() { return setup_.file == nullptr || setup_.file->open(); }

  void close_if_sparing() {
    if (setup_.file != nullptr) {
      setup_.file->close_if_sparing();
    }
  }

  // As read(2); -1 where there is nothing for now.
  [[nodiscard]] long read(char* buffer, std::size_t limit);

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
};

// Opens for writing from the start, with the folders on the way. Errors: not_possible, with path.
[[nodiscard]] Result<UniqueFd> open_output_file(const std::string& path);

// The last whole lines of a file, at most kStderrTailBytesMax bytes.
[[nodiscard]] std::string tail_of(WorkerFile& file);

}  // namespace muster
