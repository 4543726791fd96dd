// SPDX-License-Identifier: Apache-2.0
// OutputSource: one output stream of one worker. It is either a pipe, or a file that the worker
// writes and muster follows. Owned by OutputPump, which decides when to read.
#pragma once

#include "base/fd.hpp"
#include "process/output/console_sink.hpp"
#include "process/output/folded_sink.hpp"
#include "process/output/line_assembler.hpp"
#include "process/output/worker_file.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace muster {

// A file that receives lines from several workers; written after each chunk.
struct SharedFile {
  UniqueFd fd;
  std::string buffer;
  int why = 0;  // the first write error (errno); 0 if none
  std::uint64_t lost_lines = 0;

  void flush();
};

// Keeps the last bytes of a stream, at most kStderrTailBytesMax, starting at the beginning of a
// line.
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
    UniqueFd fd;                       // set if the source is a pipe; non-blocking
    std::shared_ptr<WorkerFile> file;  // set if the source is a file
    LineStyle style;
    ConsoleSink* sink = nullptr;
    FoldedSink* fold = nullptr;  // folds the lines for `sink`; null if they are not folded
    int rank = 0;                // in the job, for `fold`
    bool keeps_tail = false;     // keep the last lines for failure reports
    bool is_shown = true;        // if false, nothing is written to the sink
    bool prompts = false;        // unfinished lines are shown if no data follows for now
    bool hangs_up = false;       // close the pipe when the sink's reader closes its end
    LineStyle filtered_style;
    SharedFile* filtered = nullptr;
    std::function<void(OutputSource&)> on_ready;  // called when a pipe has data
  };

  explicit OutputSource(Setup setup);

  void on_ready() override { setup_.on_ready(*this); }

  [[nodiscard]] const Setup& setup() const { return setup_; }

  // The pipe's descriptor; -1 for a file.
  [[nodiscard]] int fd() const { return setup_.fd.get(); }

  [[nodiscard]] ConsoleSink& sink() const { return *setup_.sink; }

  [[nodiscard]] bool has_room() const { return !setup_.is_shown || sink().has_room(); }

  // Makes the worker's next write fail, as a write to our own stream would.
  void hang_up() { setup_.fd.reset(); }

  // The pid to show in line prefixes. Call before the first read.
  void set_pid(int pid);

  // Call if the stream also carries standard error.
  void keep_tail() { setup_.keeps_tail = true; }

  // Call open() before reading and close_if_sparing() afterwards. False if the file cannot be
  // opened now.
  [[nodiscard]] bool open() { return setup_.file == nullptr || setup_.file->open(); }

  void close_if_sparing() {
    if (setup_.file != nullptr) {
      setup_.file->close_if_sparing();
    }
  }

  // Like read(2); -1 if no data is available for now.
  [[nodiscard]] long read(char* buffer, std::size_t limit);

  // Call if no other source uses this sink. Bytes are then passed on immediately, including prompts
  // without a newline.
  void pass_everything() { raw_ = true; }

  // Call when the console accepts no more data. From then on, data is counted instead of shown,
  // including the unfinished line.
  void hide();

  // True if the bytes are also needed elsewhere: for a filtered file, or for the tail of a pipe.
  [[nodiscard]] bool is_read_in_full() const {
    return setup_.filtered != nullptr || setup_.kind == Kind::pipe;
  }

  void take(std::string_view bytes);
  void drained();  // no more data for now
  void finish();   // end of stream

  // The number of bytes that can be read now.
  [[nodiscard]] std::size_t available() const;

  [[nodiscard]] std::string tail() const { return tail_.lines(); }

  // Bytes read so far.
  [[nodiscard]] std::uint64_t taken() const { return taken_; }

 private:
  [[nodiscard]] std::string& target() const;
  void flush_sink();
  void flush();

  Setup setup_;
  LineAssembler lines_;
  LineAssembler filtered_lines_;
  TailKeeper tail_;
  bool raw_ = false;
  bool hidden_ = false;
  bool is_folding_ = false;  // registered with setup_.fold
  bool continues_ = false;   // see FoldedSink::take
  std::uint64_t taken_ = 0;
};

// Opens a file for writing, truncates it and creates missing directories. Error: not_possible, with
// the path.
[[nodiscard]] Result<UniqueFd> open_output_file(const std::string& path);

// The last whole lines of a file, at most kStderrTailBytesMax bytes.
[[nodiscard]] std::string tail_of(WorkerFile& file);

}  // namespace muster
