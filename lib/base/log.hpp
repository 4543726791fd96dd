// SPDX-License-Identifier: Apache-2.0
// Log: muster's own words on stderr, one line each, "muster: warning: …". Quiet by default: only
// warnings and errors. Worker output never passes through here. Used by the agent and by apps;
// cores return reasons instead. Single-threaded.
#pragma once

#include "base/error.hpp"

#include <memory>
#include <string_view>

namespace muster {

enum class LogLevel { trace, debug, info, warning, error, off };

// "warning" and the level names of Python's logging (LOGLEVEL): WARN, CRITICAL, … Error: usage.
[[nodiscard]] Result<LogLevel> parse_log_level(std::string_view text);

class Log {
 public:
  Log(std::string_view program, LogLevel level);
  ~Log();
  Log(Log&&) noexcept;
  Log& operator=(Log&&) noexcept;

  void write(LogLevel level, std::string_view message);

  void debug(std::string_view message) { write(LogLevel::debug, message); }

  void info(std::string_view message) { write(LogLevel::info, message); }

  void warning(std::string_view message) { write(LogLevel::warning, message); }

  void error(std::string_view message) { write(LogLevel::error, message); }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
