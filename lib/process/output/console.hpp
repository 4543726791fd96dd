// SPDX-License-Identifier: Apache-2.0
// Console: muster's own standard output and error as two sinks, or as one sink if both are the same
// file. All output of the agent passes through it: the workers' output from OutputPump, and
// muster's own messages, because it is the logger's destination. A stalled reader therefore cannot
// block the agent, and lines are never interleaved. Owned by LinuxRunner; resource; lives on the
// loop's thread.
#pragma once

#include "base/logger.hpp"
#include "process/output/console_sink.hpp"

#include <functional>
#include <memory>
#include <string_view>

namespace muster {

class Console {
 public:
  explicit Console(Poller& poller) : poller_(poller) {}

  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // Called when a full sink can accept data again.
  void set_on_room(std::function<void()> on_room) { on_room_ = std::move(on_room); }

  // The sink for descriptor 1 (output) or 2 (error).
  [[nodiscard]] ConsoleSink& sink(int stream);

  // Prints muster's own lines on standard error. Never blocks.
  void say(std::string_view text) { sink(2).say(text); }

  // Blocks until everything is written or the wait expires.
  void write_all(ConsoleWait& wait);

  // Called at the end of the job, before the last lines. Drops unread output and reports on
  // standard error how much was dropped.
  void tell_unshown();

  // True if worker output is lost: the console refused it (for example, because the disk is full),
  // and no log file contains it.
  [[nodiscard]] bool has_lost_output() const;

 private:
  [[nodiscard]] std::unique_ptr<ConsoleSink> open(int fd);
  void tell_refused();

  Poller& poller_;
  std::function<void()> on_room_ = [] {};
  std::unique_ptr<ConsoleSink> error_;   // created first
  std::unique_ptr<ConsoleSink> output_;  // null if both share a sink
  bool one_place_ = false;
  LogTo own_lines_{[this](std::string_view lines) { say(lines); }};
};

}  // namespace muster
