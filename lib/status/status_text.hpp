// SPDX-License-Identifier: Apache-2.0
// Formats status and events as text for the output of musterctl. The JSON comes from another
// program or a file and is untrusted. The resulting text is safe to print. Pure.
#pragma once

#include "status/rank_table.hpp"

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
// top". Limits view.first to the last ranks that fill the screen.
[[nodiscard]] std::string top_screen(std::string_view status,
                                     const ScreenSize& size,
                                     TopView& view);

// Changes the view as a key requests: arrows and pages scroll, s sorts by the next column, r
// reverses the order. `key` is the key's sequence of bytes. Ignores other keys.
void take_key(TopView& view, std::string_view key, std::string_view status, const ScreenSize& size);

// Formats a line of events.jsonl as "12:01:07  round 2  worker_failed  rank=3 …". Returns `line`
// itself if it is not an event.
[[nodiscard]] std::string event_text(std::string_view line);

}  // namespace muster
