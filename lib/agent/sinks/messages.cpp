// SPDX-License-Identifier: Apache-2.0
#include "agent/sinks/messages.hpp"

#include "agent/events/event_text.hpp"
#include "base/logger.hpp"
#include "base/printable.hpp"

namespace muster {
namespace {

constexpr std::size_t kLogLineBytesMax = 2000;  // lines contain text from workers and other nodes

}  // namespace

bool colours_wanted(const Environ& environ) {
  return environ.get("NO_COLOR").value_or("").empty();
}

Messages::Messages(const AgentSetup& setup)
    : has_colours_(setup.stderr_is_terminal && colours_wanted(setup.environ)) {
  logger().set_colours(has_colours_);
}

void Messages::take(const JobEvent& event) {
  const auto line = line_of(event);
  if (!line || !logger().shows(line->level)) {
    return;
  }
  before_();
  const std::string text = printable(line->text, kLogLineBytesMax);
  if (line->is_news) {
    logger().print(text);
  } else {
    logger().log(line->level, text);
  }
  const auto* hang = std::get_if<event::HangFound>(&event.what);
  if (hang != nullptr && hang->told_by.empty()) {
    const auto block = hang::block_of(hang->verdict, hang->facts);
    for (std::size_t i = 1; i < block.size(); ++i) {
      logger().write(printable(block[i], kLogLineBytesMax) + "\n");
    }
  }
}

}  // namespace muster
