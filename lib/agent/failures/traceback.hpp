// SPDX-License-Identifier: Apache-2.0
// Python tracebacks in what a worker wrote: where they begin, their messages, and the few lines of
// them that a report has room for. Used by the report and by lost_connection. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

inline constexpr std::string_view kTracebackStart = "Traceback (most recent call last):";

// A line without the "[rank3]: " that PyTorch 2.2 and later put before each line of a traceback.
[[nodiscard]] std::string_view without_rank(std::string_view line);

// The index of the first line of the message of the exception whose frames begin at `at`, or
// lines.size().
[[nodiscard]] std::size_t message_line(const std::vector<std::string>& lines, std::size_t at);

// The last traceback in the text, with those of the exceptions that led to it ("The above exception
// was the direct cause …"). Empty if there is none.
[[nodiscard]] std::string last_chain(std::string_view text);

// The last `count` lines; of a traceback also its first line, since it says that it is one, and of
// a chain the message of each earlier exception, the first one in any case.
[[nodiscard]] std::vector<std::string> shorten(const std::vector<std::string>& lines,
                                               std::size_t count);

}  // namespace muster
