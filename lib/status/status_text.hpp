// SPDX-License-Identifier: Apache-2.0
// Formats status and events as text for the output of musterctl. The JSON comes from another
// program or a file and is untrusted. The resulting text is safe to print. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster {

// `status` is in the format of status_json.
[[nodiscard]] std::string status_text(std::string_view status);

struct ScreenSize {
  std::size_t columns = 80;
  std::size_t rows = 24;
};

// Formats the status for a screen of this size, without line wrapping: the output of "musterctl
// top".
[[nodiscard]] std::string top_screen(std::string_view status, const ScreenSize& size);

// Formats a line of events.jsonl as "12:01:07  round 2  worker_failed  rank=3 …". Returns `line`
// itself if it is not an event.
[[nodiscard]] std::string event_text(std::string_view line);

}  // namespace muster
