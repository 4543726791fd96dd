// SPDX-License-Identifier: Apache-2.0
// ConsoleSink: our own standard output or error, as a place where whole lines go without ever
// waiting. A reader that is gone closes the sink. What a stream refuses for another reason (a full
// disk) is counted, and later writes are tried again. A reader that is slow or has stopped fills a
// bounded queue: `has_room` then tells the sources to leave the workers' bytes where they are (in a
// file or in the worker's pipe), and muster's own messages have a share of their own. What finds no
// room is dropped and counted, and a line with the count is shown once the reader goes on. Made by
// Console; resource; lives on the loop's thread.
#pragma once

#include "base/stream_writer.hpp"
#include "base/time.hpp"
#include "process/loop/poller.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace muster {

// How long we may wait for consoles, in all calls that share it.
struct ConsoleWait {
  Duration left{};
  int interrupt_fd = -1;  // something to read here ends the wait at once
};

// What was not shown, by whose it was.
struct Unshown {
  std::uint64_t messages = 0;      // of muster
  std::uint64_t worker_bytes = 0;  // of the workers
  bool in_files = true;            // log files hold all of these bytes

  [[nodiscard]] bool any() const { return messages > 0 || worker_bytes > 0; }

  // One line for people: "muster: warning: … 3 messages of muster and 120 bytes … not shown".
  [[nodiscard]] std::string describe(std::string_view console) const;
};

// What a stream refused to take, although its reader is there: the disk is full, as a rule.
struct Refused {
  int why = 0;              // the first errno; 0: nothing was refused
  std::uint64_t lines = 0;  // of the workers
  std::uint64_t bytes = 0;  // of the workers
  std::uint64_t messages = 0;
  bool in_files = true;

  // "muster: warning: cannot write standard output: No space left on device; lost: 12 lines …"
  [[nodiscard]] std::string describe(std::string_view stream) const;

  // Output of workers that is in no log file either.
  [[nodiscard]] bool is_loss() const { return bytes > 0 && !in_files; }
};

class ConsoleSink final : public Watcher {
 public:
  // `fd` is 1 or 2 and stays ours to borrow. `on_room` is called when a full queue has emptied.
  ConsoleSink(int fd, Poller& poller, std::function<void()> on_room);
  ~ConsoleSink() override;
  ConsoleSink(const ConsoleSink&) = delete;
  ConsoleSink& operator=(const ConsoleSink&) = delete;

  [[nodiscard]] bool is_terminal() const { return writer_.is_terminal(); }

  // The workers' lines are appended here, where there is room, then flush() is called.
  [[nodiscard]] std::string& buffer() { return pending_; }

  void flush();

  // A message of muster's own, whole lines, queued behind what is there.
  void say(std::string_view text);

  // So much of the workers' output will not come, because there was no room for too long.
  void note_unshown(std::size_t worker_bytes) { unshown_.worker_bytes += worker_bytes; }

  // Some output that goes here is in no log file, or in one that was truncated.
  void note_unfiled() { in_files_ = false; }

  [[nodiscard]] bool has_room() const { return queued() < kQueueBytesLow; }

  // The reader is gone.
  [[nodiscard]] bool is_closed() const { return closed_; }

  [[nodiscard]] bool empty() const { return pending_.empty(); }

  // Blocks until the queue has room (or, with `all`, is empty); false when that is given up. A
  // console that took nothing during such a wait is not waited for again until it takes something.
  [[nodiscard]] bool wait_for_room(ConsoleWait& wait, bool all);

  // The last line is to come, and the wait for the reader is over: drops what is still queued, so
  // that a slow reader sees how the job ended. Everything that was not shown until now.
  [[nodiscard]] Unshown give_up_queue();

  // All that was refused since the start.
  [[nodiscard]] Refused refused() const;

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
  bool stalled_ = false;  // a wait for it was in vain
  Poller& poller_;
  std::function<void()> on_room_;
  std::string pending_;
  std::size_t written_ = 0;    // of pending_
  std::size_t own_bytes_ = 0;  // of muster's messages in pending_ ...
  std::size_t own_end_ = 0;    // ... and where the last of them ends
  std::uint64_t own_count_ = 0;
  std::uint64_t own_lines_ = 0;
  Unshown unshown_;  // since the last line that reported it
  Refused refused_;
  bool torn_ = false;  // the stream ends inside a line whose rest was refused
  bool in_files_ = true;
};

// Whether descriptors 1 and 2 lead to the same place, so that they must share a sink.
[[nodiscard]] bool same_place(int one, int other);

}  // namespace muster
