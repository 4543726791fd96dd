// SPDX-License-Identifier: Apache-2.0
// ConsoleSink: muster's own standard output or error. It accepts whole lines and never blocks. If
// the reader closes its end, the sink closes. Data that a stream refuses for another reason (such
// as a full disk) is counted, and the sink still attempts later writes. A slow or stalled reader
// fills a bounded queue. While `has_room` is false, the workers' output stays in its file or pipe;
// muster's own messages have a separate quota. Output that does not fit is dropped and counted, and
// a line with the count is printed once the reader resumes. Owned by Console; resource; lives on
// the loop's thread.
#pragma once

#include "base/stream_writer.hpp"
#include "base/time.hpp"
#include "process/loop/poller.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace muster {

// A time budget for waiting for consoles, shared by all calls that use this object.
struct ConsoleWait {
  Duration left{};
  int interrupt_fd = -1;  // the wait stops as soon as this descriptor is readable
};

// Dropped output, by source.
struct Unshown {
  std::uint64_t messages = 0;      // muster's own messages
  std::uint64_t worker_bytes = 0;  // from the workers
  bool in_files = true;            // log files contain all these bytes

  [[nodiscard]] bool any() const { return messages > 0 || worker_bytes > 0; }

  // One line: "muster: warning: this console was not read in time; dropped: 3 messages from …".
  [[nodiscard]] std::string describe(std::string_view console) const;
};

// Data that a stream refused although its reader still exists, usually because the disk is full.
struct Refused {
  int why = 0;              // the first errno; 0 if nothing was refused
  std::uint64_t lines = 0;  // from the workers
  std::uint64_t bytes = 0;  // from the workers
  std::uint64_t messages = 0;
  bool in_files = true;

  // "muster: warning: cannot write standard output: No space left on device; lost: 12 lines …"
  [[nodiscard]] std::string describe(std::string_view stream) const;

  // True if worker output was lost, that is, no log file contains it.
  [[nodiscard]] bool is_loss() const { return bytes > 0 && !in_files; }
};

class ConsoleSink final : public Watcher {
 public:
  // `fd` is 1 or 2 and is not owned. `on_room` is called when a full queue has drained.
  ConsoleSink(int fd, Poller& poller, std::function<void()> on_room);
  ~ConsoleSink() override;
  ConsoleSink(const ConsoleSink&) = delete;
  ConsoleSink& operator=(const ConsoleSink&) = delete;

  [[nodiscard]] bool is_terminal() const { return writer_.is_terminal(); }

  // Append the workers' lines here if there is room, then call flush().
  [[nodiscard]] std::string& buffer() { return pending_; }

  void flush();

  // `before` is called before each message: it may append worker output that was held back.
  void set_before_message(std::function<void()> before) { before_message_ = std::move(before); }

  // Queues a message from muster after everything already queued. The text consists of whole lines.
  void say(std::string_view text);

  // Counts worker output that is dropped because the queue was full for too long.
  void note_unshown(std::size_t worker_bytes) { unshown_.worker_bytes += worker_bytes; }

  // Records that some output for this sink is not in a log file, or that the log file was
  // truncated.
  void note_unfiled() { in_files_ = false; }

  [[nodiscard]] bool has_room() const { return queued() < kQueueBytesLow; }

  // True if the reader has closed its end.
  [[nodiscard]] bool is_closed() const { return closed_; }

  [[nodiscard]] bool empty() const { return pending_.empty(); }

  // Blocks until the queue has room (or is empty, with `all`). Returns false on timeout. If a
  // console accepted nothing during such a wait, later calls do not wait for it until it accepts
  // data again.
  [[nodiscard]] bool wait_for_room(ConsoleWait& wait, bool all);

  // Call before the last line, when the wait for the reader has expired. Drops the queue, so that a
  // slow reader still sees the job's last line. Returns the amount of output dropped so far.
  [[nodiscard]] Unshown give_up_queue();

  // All data refused since the start.
  [[nodiscard]] Refused refused() const;

  // Writes what the stream accepts. Calls `on_room` if the queue was full and has room now.
  void on_ready() override;

 private:
  static constexpr std::size_t kQueueBytesLow = std::size_t{256} * 1024;
  static constexpr std::size_t kOwnBytesMax = std::size_t{64} * 1024;

  [[nodiscard]] std::size_t queued() const { return pending_.size() - written_; }

  bool write_queue();
  void give_up_write(int why);
  void count_refused(std::string_view rest);
  void shrink();
  void watch();
  void clear();
  void forget_own();
  [[nodiscard]] Unshown take_unshown();

  StreamWriter writer_;
  bool closed_ = false;
  bool watched_ = false;
  bool stalled_ = false;  // the last wait for the stream timed out
  Poller& poller_;
  std::function<void()> on_room_;
  std::function<void()> before_message_ = [] {};
  std::string pending_;
  std::size_t written_ = 0;    // bytes of pending_ already written
  std::size_t own_bytes_ = 0;  // bytes of muster's own messages in pending_
  std::size_t own_end_ = 0;    // offset in pending_ of the end of muster's last message
  std::uint64_t own_count_ = 0;
  std::uint64_t own_lines_ = 0;
  Unshown unshown_;  // since the last report
  Refused refused_;
  bool torn_ = false;  // the stream ends in the middle of a line; the rest was refused
  bool in_files_ = true;
};

// True if descriptors 1 and 2 refer to the same file and must therefore share a sink.
[[nodiscard]] bool same_place(int one, int other);

}  // namespace muster
