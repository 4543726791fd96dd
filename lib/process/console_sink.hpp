// SPDX-License-Identifier: Apache-2.0
// ConsoleSink: our own standard output or error, as a place where whole lines go without ever
// waiting. It writes through an open description of its own, so that making it non-blocking does
// not change the stream under the workers or the shell. A reader that is gone closes the sink; a
// slow one fills a bounded queue, and `has_room` tells the sources to leave their bytes where they
// are (in a file or in the worker's pipe). Resource; lives on the loop's thread.
#pragma once

#include "base/fd.hpp"
#include "base/time.hpp"
#include "process/poller.hpp"

#include <functional>
#include <string>

namespace muster {

struct ConsoleWait {
  Duration patience{};    // how long the console may take nothing
  int interrupt_fd = -1;  // something to read here ends the wait at once
};

class ConsoleSink final : public Watcher {
 public:
  // `fd` is 1 or 2 and stays ours to borrow. `on_room` is called when a full queue has emptied.
  ConsoleSink(int fd, Poller& poller, std::function<void()> on_room);
  ~ConsoleSink() override;
  ConsoleSink(const ConsoleSink&) = delete;
  ConsoleSink& operator=(const ConsoleSink&) = delete;

  [[nodiscard]] bool is_terminal() const { return terminal_; }

  // Whole lines are appended here, then flush() is called.
  [[nodiscard]] std::string& buffer() { return pending_; }

  void flush();

  [[nodiscard]] bool has_room() const { return pending_.size() - written_ < kQueueBytesLow; }

  [[nodiscard]] bool empty() const { return pending_.empty(); }

  // Blocks until the queue has room (or, with `all`, is empty); false when that is given up.
  [[nodiscard]] bool wait_for_room(const ConsoleWait& wait, bool all);

  // Drops what is queued, for a console that takes nothing; a line half written is ended when it
  // takes something again.
  void drop();

  void on_ready() override;

 private:
  static constexpr std::size_t kQueueBytesLow = std::size_t{256} * 1024;

  // How a write is kept from blocking.
  enum class Way { plain, own_description, socket, small_pieces };

  void open(int fd);
  void clear();
  [[nodiscard]] long write_some(const char* data, std::size_t size) const;

  [[nodiscard]] int target() const { return own_ ? own_.get() : borrowed_; }

  int borrowed_;
  UniqueFd own_;
  Way way_ = Way::plain;
  bool terminal_ = false;
  bool closed_ = false;
  bool watched_ = false;
  bool mid_line_ = false;  // the last byte written was no newline
  Poller& poller_;
  std::function<void()> on_room_;
  std::string pending_;
  std::size_t written_ = 0;  // of pending_
};

// Whether descriptors 1 and 2 lead to the same place, so that they must share a sink.
[[nodiscard]] bool same_place(int one, int other);

}  // namespace muster
