// SPDX-License-Identifier: Apache-2.0
// The texts of events: the line on stderr that an event is, if any, and its line in events.jsonl.
// Pure.
#pragma once

#include "agent/events/job_event.hpp"

#include <optional>
#include <string>

namespace muster {

// The version of what event_json writes. Fields and events may be added to it; readers ignore what
// they do not know.
inline constexpr int kEventsVersion = 1;

struct EventLine {
  LogLevel level = LogLevel::info;
  std::string text;
  bool is_news = false;  // printed at this level, without its name: nothing is wrong
};

// None where nothing is said of it as it happens.
[[nodiscard]] std::optional<EventLine> line_of(const JobEvent& event);

// One JSON object on one line, with its line break.
[[nodiscard]] std::string event_json(const JobEvent& event);

}  // namespace muster
