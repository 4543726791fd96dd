// SPDX-License-Identifier: Apache-2.0
// What musterctl prints: the status and events as people read them. The JSON comes from another
// program or from a file, and may be anything; the text is safe to print. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster {

// `status` as status_json writes it.
[[nodiscard]] std::string status_text(std::string_view status);

struct ScreenSize {
  std::size_t columns = 80;
  std::size_t rows = 24;
};

// The same on one screen, no line longer than it is wide: what "musterctl top" shows.
[[nodiscard]] std::string top_screen(std::string_view status, const ScreenSize& size);

// A line of events.jsonl: "12:01:07  round 2  worker_failed  rank=3 …". `line` itself where it is
// no event.
[[nodiscard]] std::string event_text(std::string_view line);

}  // namespace muster
