// SPDX-License-Identifier: Apache-2.0
// Formats muster's own messages, each on one line: "muster: warning: …". By default only warnings
// and errors are printed. The code that writes them (the agent's console, main, the guard) must
// never block on a reader. Values.
#pragma once

#include "base/error.hpp"

#include <string>
#include <string_view>

namespace muster {

enum class LogLevel { trace, debug, info, warning, error, off };

// Accepts "warning" and the level names of Python's logging (LOGLEVEL): WARN, CRITICAL, … Error:
// usage.
[[nodiscard]] Result<LogLevel> parse_log_level(std::string_view text);

// The complete line including its newline. `colour` colours the level's name, for terminals.
[[nodiscard]] std::string log_line(LogLevel level, std::string_view message, bool colour = false);

}  // namespace muster
