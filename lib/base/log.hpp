// SPDX-License-Identifier: Apache-2.0
// Formats muster's own messages, one line each: "muster: warning: …". By default only warnings and
// errors. The code that writes them (the agent's console, main, the guard) must never block on a
// reader. Values.
#pragma once

#include "base/error.hpp"

#include <string>
#include <string_view>

namespace muster {

enum class LogLevel { trace, debug, info, warning, error, off };

// "warning" and the level names of Python's logging (LOGLEVEL): WARN, CRITICAL, … Error: usage.
[[nodiscard]] Result<LogLevel> parse_log_level(std::string_view text);

// The whole line, with its newline; `colour` is for the level's name on a terminal.
[[nodiscard]] std::string log_line(LogLevel level, std::string_view message, bool colour = false);

}  // namespace muster
