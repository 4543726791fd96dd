// SPDX-License-Identifier: Apache-2.0
// Finds Python tracebacks in a worker's output: where they begin, their messages, and the few lines
// that fit into a report. Used by the report and by what judges failures. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

inline constexpr std::string_view kTracebackStart = "Traceback (most recent call last):";

// The line without the "[rank3]: " prefix that PyTorch 2.2 and later add to each line of a
// traceback.
[[nodiscard]] std::string_view without_rank(std::string_view line);

// The lines of the text that contain more than white space.
[[nodiscard]] std::vector<std::string> lines_with_text(std::string_view text);

// The messages of the exceptions in the text, the first one first. A message ends at an empty line,
// at the next traceback, or after `lines_max` lines.
[[nodiscard]] std::vector<std::vector<std::string>> exception_messages(
    const std::vector<std::string>& lines, std::size_t lines_max);

// The index of the first message line of the exception whose frames begin at `at`, or lines.size().
[[nodiscard]] std::size_t message_line(const std::vector<std::string>& lines, std::size_t at);

// The last traceback in the text, including the exceptions chained to it ("The above exception was
// the direct cause …"). Empty without a traceback.
[[nodiscard]] std::string last_chain(std::string_view text);

// The last `count` lines. For a traceback, also its first line, so that readers recognize it as a
// traceback. For a chain, also the messages of the earlier exceptions: as many as fit, and always
// the first one.
[[nodiscard]] std::vector<std::string> shorten(const std::vector<std::string>& lines,
                                               std::size_t count);

}  // namespace muster
