// SPDX-License-Identifier: Apache-2.0
// The process's logger: prints muster's own messages, each on one line: "muster: warning: …". It
// passes complete lines to a destination and never blocks on a reader. While a Console exists, the
// destination is its queue; otherwise lines are written to standard error with a timeout. Wraps
// spdlog. Resource; used by one thread.
#pragma once

#include "base/log_level.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

class Logger {
 public:
  Logger();
  ~Logger();
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  // The first word of each line; "muster" by default.
  void set_program(std::string_view name);

  // Drops messages of lower levels. The default is `warning`.
  void set_level(LogLevel level);

  // Colours the level's name, for terminals.
  void set_colours(bool wanted);

  [[nodiscard]] bool shows(LogLevel level) const;

  // Prints "muster: warning: " and the message.
  void log(LogLevel level, std::string_view message);

  // Prints "muster: " and the message, at any level.
  void print(std::string_view message);

  // Passes whole lines to the destination unchanged.
  void write(std::string_view lines) const;

 private:
  friend class LogTo;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

[[nodiscard]] Logger& logger();

inline void log_warning(std::string_view message) {
  logger().log(LogLevel::warning, message);
}

inline void log_error(std::string_view message) {
  logger().log(LogLevel::error, message);
}

// While a LogTo exists, it is the logger's destination. If several exist, the newest one is used.
class LogTo {
 public:
  // `write` receives one complete line per call, including its newline. It must not block.
  explicit LogTo(std::function<void(std::string_view line)> write);
  ~LogTo();
  LogTo(const LogTo&) = delete;
  LogTo& operator=(const LogTo&) = delete;

 private:
  friend class Logger;
  std::function<void(std::string_view)> write_;
};

// Collects lines during its lifetime and then passes them on in one piece. A blocked console thus
// causes only one wait.
class LogBatch {
 public:
  LogBatch();
  ~LogBatch();
  LogBatch(const LogBatch&) = delete;
  LogBatch& operator=(const LogBatch&) = delete;

 private:
  std::string lines_;
  std::optional<LogTo> collect_;
};

}  // namespace muster
