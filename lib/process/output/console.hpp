// SPDX-License-Identifier: Apache-2.0
// Console: our standard output and error as two sinks, or one where both lead to the same place.
// Everything that the agent prints goes through here: the workers' output by OutputPump, muster's
// own messages by `say`. So no reader that stopped can hold the agent, and no two lines tear each
// other. Owned by LinuxRunner; resource; lives on the loop's thread.
#pragma once

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

  // Called when a full sink has room again.
  void set_on_room(std::function<void()> on_room) { on_room_ = std::move(on_room); }

  // Where 1 (output) or 2 (error) goes.
  [[nodiscard]] ConsoleSink& sink(int stream);

  // Muster's own lines, on standard error. Never waits.
  void say(std::string_view text) { sink(2).say(text); }

  // Blocks until all is written or the wait is over.
  void write_all(ConsoleWait& wait);

  // At the end of the job, before the last lines: drops what nobody read, and tells how much that
  // was on standard error.
  void tell_unshown();

  // Output of workers was refused (a full disk), and no log file holds it.
  [[nodiscard]] bool has_lost_output() const;

 private:
  [[nodiscard]] std::unique_ptr<ConsoleSink> open(int fd);
  void tell_refused();

  Poller& poller_;
  std::function<void()> on_room_ = [] {};
  std::unique_ptr<ConsoleSink> error_;   // made first: most jobs print nothing of their own ...
  std::unique_ptr<ConsoleSink> output_;  // ... to either; none where both are one place
  bool one_place_ = false;
};

}  // namespace muster
