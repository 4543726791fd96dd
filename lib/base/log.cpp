// SPDX-License-Identifier: Apache-2.0
// The only file that includes spdlog, header-only, so that the release binary needs no shared
// libspdlog; fmt's own code is in fmt.cpp.
#include "base/log.hpp"

#include "base/text.hpp"

#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/spdlog.h>

#include <array>
#include <string>
#include <utility>

namespace muster {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  static constexpr std::array kLevels{spdlog::level::trace,
                                      spdlog::level::debug,
                                      spdlog::level::info,
                                      spdlog::level::warn,
                                      spdlog::level::err,
                                      spdlog::level::off};
  return kLevels.at(static_cast<std::size_t>(level));
}

}  // namespace

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

struct Log::Impl {
  spdlog::logger logger;
};

Log::Log(std::string_view program, LogLevel level)
    : impl_(std::make_unique<Impl>(Impl{spdlog::logger(
          std::string(program), std::make_shared<spdlog::sinks::ansicolor_stderr_sink_st>())})) {
  impl_->logger.set_level(to_spdlog(level));
  impl_->logger.set_pattern("%n: %^%l%$: %v");
}

Log::~Log() = default;
Log::Log(Log&&) noexcept = default;
Log& Log::operator=(Log&&) noexcept = default;

void Log::write(LogLevel level, std::string_view message) {
  impl_->logger.log(to_spdlog(level), message);
}

}  // namespace muster
