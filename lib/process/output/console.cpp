// SPDX-License-Identifier: Apache-2.0
#include "process/output/console.hpp"

namespace muster {

std::unique_ptr<ConsoleSink> Console::open(int fd) {
  return std::make_unique<ConsoleSink>(fd, poller_, [this] { on_room_(); });
}

ConsoleSink& Console::sink(int stream) {
  if (!error_) {
    one_place_ = same_place(1, 2);
    error_ = open(2);
  }
  if (stream == 2 || one_place_) {
    return *error_;
  }
  if (!output_) {
    output_ = open(1);
  }
  return *output_;
}

void Console::write_all(ConsoleWait& wait) {
  for (ConsoleSink* const sink : {output_.get(), error_.get()}) {
    if (sink != nullptr) {
      static_cast<void>(sink->wait_for_room(wait, true));
    }
  }
}

void Console::tell_unshown() {
  if (const Unshown lost = error_ ? error_->give_up_queue() : Unshown{}; lost.any()) {
    say(lost.describe("this console"));
  }
  if (const Unshown lost = output_ ? output_->give_up_queue() : Unshown{}; lost.any()) {
    say(lost.describe("standard output"));
  }
  tell_refused();
}

// Reports failed writes. Failed writes to standard error are reported on standard output, but only
// if standard output is a terminal, because it may otherwise carry data.
void Console::tell_refused() {
  if (const Refused lost = output_ ? output_->refused() : Refused{}; lost.why != 0) {
    say(lost.describe("standard output"));
  }
  if (const Refused lost = error_ ? error_->refused() : Refused{}; lost.why != 0) {
    const bool elsewhere = !one_place_ && sink(1).is_terminal();
    sink(elsewhere ? 1 : 2).say(lost.describe("standard error"));
  }
}

bool Console::has_lost_output() const {
  return (output_ && output_->refused().is_loss()) || (error_ && error_->refused().is_loss());
}

}  // namespace muster
