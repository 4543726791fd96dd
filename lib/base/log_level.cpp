// SPDX-License-Identifier: Apache-2.0
#include "base/log_level.hpp"

#include "base/text.hpp"

#include <array>
#include <string>
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

}  // namespace muster
