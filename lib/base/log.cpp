// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include "base/text.hpp"

#include <array>
#include <utility>

namespace muster {

Result<LogLevel> parse_log_level(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, LogLevel>, 9> kNames{
      {{"trace", LogLevel::trace},
       {"notset", LogLevel::trace},
       {"debug", LogLevel::debug},
       {"info", LogLevel::info},
       {"warning", LogLevel::warning},
       {"warn", LogLevel::warning},
       {"error", LogLevel::error},
       {"critical", LogLevel::error},
       {"off", LogLevel::off}}};
  const std::string lower = to_lower(trim(text));
  for (const auto& [name, level] : kNames) {
    if (lower == name) {
      return level;
    }
  }
  return failure(
      Errc::usage,
      "'" + std::string(text) + "' is not a log level (debug, info, warning, error, off)");
}

std::string log_line(LogLevel level, std::string_view message, bool colour) {
  struct Style {
    std::string_view name;
    std::string_view colour;
  };

  static constexpr std::array<Style, 6> kStyles{{{"trace", "\x1b[37m"},
                                                 {"debug", "\x1b[36m"},
                                                 {"info", "\x1b[32m"},
                                                 {"warning", "\x1b[33m\x1b[1m"},
                                                 {"error", "\x1b[31m\x1b[1m"},
                                                 {"off", ""}}};
  const Style& style = kStyles.at(static_cast<std::size_t>(level));
  std::string line = "muster: ";
  line.append(colour ? style.colour : "").append(style.name).append(colour ? "\x1b[m" : "");
  return line.append(": ").append(message).append("\n");
}

}  // namespace muster
