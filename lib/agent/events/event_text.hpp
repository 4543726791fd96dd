// SPDX-License-Identifier: Apache-2.0
// Formats events: as the line printed on stderr, if any, and as a line of events.jsonl. Pure.
#pragma once

#include "agent/events/job_event.hpp"

#include <optional>
#include <string>

namespace muster {

// The format version of event_json. Fields and events may be added without a new version, so
// readers must ignore unknown ones.
inline constexpr int kEventsVersion = 1;

struct EventLine {
  LogLevel level = LogLevel::info;
  std::string text;
  bool is_news = false;  // printed without a level prefix, because it is not a problem
};

// None if nothing is printed for the event.
[[nodiscard]] std::optional<EventLine> line_of(const JobEvent& event);

// One JSON object on one line, including the line break.
[[nodiscard]] std::string event_json(const JobEvent& event);

}  // namespace muster
