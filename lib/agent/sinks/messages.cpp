// SPDX-License-Identifier: Apache-2.0
#include "agent/sinks/messages.hpp"

#include "agent/events/event_text.hpp"
#include "base/printable.hpp"
#include "base/stream_writer.hpp"

namespace muster {
namespace {

constexpr Duration kConsoleTimeout = std::chrono::milliseconds(250);

constexpr std::size_t kLogLineBytesMax = 2000;  // lines contain text from workers and other nodes

}  // namespace

bool colours_wanted(const Environ& environ) {
  return environ.get("NO_COLOR").value_or("").empty();
}

bool Messages::has_colours() const {
  return setup_.stderr_is_terminal && colours_wanted(setup_.environ);
}

void Messages::take(const JobEvent& event) {
  const auto line = line_of(event);
  if (!line || line->level < setup_.config.log_level) {
    return;
  }
  before_();
  const std::string text = printable(line->text, kLogLineBytesMax);
  show(line->is_news ? "muster: " + text + "\n" : log_line(line->level, text, has_colours()));
  const auto* hang = std::get_if<event::HangFound>(&event.what);
  if (hang != nullptr && hang->told_by.empty()) {
    const auto block = hang::block_of(hang->verdict, hang->facts);
    for (std::size_t i = 1; i < block.size(); ++i) {
      show(printable(block[i], kLogLineBytesMax) + "\n");
    }
  }
}

// Without a runner there is no queue. In that case the runner could not be created, and the job
// ends.
void Messages::show(const std::string& text) {
  if (runner_ != nullptr) {
    runner_->say(text);
  } else {
    write_within(2, text, kConsoleTimeout);
  }
}

void Messages::finish() {
  if (runner_ != nullptr) {
    runner_->finish_console(kConsoleTimeout);
  }
}

}  // namespace muster
