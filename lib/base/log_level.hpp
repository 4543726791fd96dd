// SPDX-License-Identifier: Apache-2.0
// The levels of muster's own messages (logger.hpp). By default, only warnings and errors are
// printed. Values.
#pragma once

#include "base/error.hpp"

#include <string_view>

namespace muster {

enum class LogLevel { trace, debug, info, warning, error, off };

// Accepts "warning" and the level names of Python's logging (LOGLEVEL): WARN, CRITICAL, … Error:
// usage.
[[nodiscard]] Result<LogLevel> parse_log_level(std::string_view text);

}  // namespace muster
