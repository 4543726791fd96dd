// SPDX-License-Identifier: Apache-2.0
// The only file that includes spdlog. It uses spdlog's headers only, because Debian packages the
// compiled library only as a shared one. fmt's code is in fmt.cpp.
#include "base/logger.hpp"

#include "base/stream_writer.hpp"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <unistd.h>

namespace muster {
namespace {

constexpr Duration kDirectWriteTimeout = std::chrono::milliseconds(250);

struct LogStyle {
  spdlog::level::level_enum level;
  std::string_view colour;
};

// In the order of LogLevel.
constexpr std::array<LogStyle, 6> kLogStyles{{{spdlog::level::trace, "\x1b[37m"},
                                              {spdlog::level::debug, "\x1b[36m"},
                                              {spdlog::level::info, "\x1b[32m"},
                                              {spdlog::level::warn, "\x1b[33m\x1b[1m"},
                                              {spdlog::level::err, "\x1b[31m\x1b[1m"},
                                              {spdlog::level::off, ""}}};

spdlog::level::level_enum spdlog_level(LogLevel level) {
  return kLogStyles.at(static_cast<std::size_t>(level)).level;
}

// Passes each line to `write`. Messages of level `off` are printed without a level.
class LineSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit LineSink(std::function<void(std::string_view)> write) : write_(std::move(write)) {}

  void set_program(std::string name) {
    for (std::size_t at = 0; (at = name.find('%', at)) != std::string::npos; at += 2) {
      name.insert(at, 1, '%');
    }
    set_pattern(name + ": %^%l%$: %v");
    plain_ = std::make_unique<spdlog::pattern_formatter>(name + ": %v");
  }

  bool has_colours = false;

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t buffer;
    (message.level == spdlog::level::off ? plain_ : formatter_)->format(message, buffer);
    std::string line(buffer.data(), buffer.size());
    if (has_colours && message.color_range_end > message.color_range_start) {
      const auto* style = std::ranges::find(kLogStyles, message.level, &LogStyle::level);
      line.insert(message.color_range_end, "\x1b[m");
      line.insert(message.color_range_start, style->colour);
    }
    write_(line);
  }

  void flush_() override {}

 private:
  std::function<void(std::string_view)> write_;
  std::unique_ptr<spdlog::formatter> plain_;
};

}  // namespace

struct Logger::Impl {
  std::vector<const LogTo*> destinations;
  std::shared_ptr<LineSink> sink;
  spdlog::logger log;
};

Logger::Logger() {
  auto sink = std::make_shared<LineSink>([this](std::string_view line) { write(line); });
  impl_ = std::make_unique<Impl>(Impl{{}, sink, spdlog::logger("muster", sink)});
  set_program("muster");
  set_level(LogLevel::warning);
}

Logger::~Logger() = default;

void Logger::set_program(std::string_view name) {
  impl_->sink->set_program(std::string(name));
}

void Logger::set_level(LogLevel level) {
  impl_->log.set_level(spdlog_level(level));
}

void Logger::set_colours(bool wanted) {
  impl_->sink->has_colours = wanted;
}

bool Logger::shows(LogLevel level) const {
  return impl_->log.should_log(spdlog_level(level));
}

void Logger::log(LogLevel level, std::string_view message) {
  impl_->log.log(spdlog_level(level), spdlog::string_view_t(message.data(), message.size()));
}

void Logger::print(std::string_view message) {
  log(LogLevel::off, message);
}

void Logger::write(std::string_view lines) const {
  if (impl_->destinations.empty()) {
    write_within(STDERR_FILENO, lines, kDirectWriteTimeout);
  } else {
    impl_->destinations.back()->write_(lines);
  }
}

Logger& logger() {
  static Logger the_logger;
  return the_logger;
}

LogTo::LogTo(std::function<void(std::string_view)> write) : write_(std::move(write)) {
  logger().impl_->destinations.push_back(this);
}

LogTo::~LogTo() {
  std::erase(logger().impl_->destinations, this);
}

LogBatch::LogBatch() {
  collect_.emplace([this](std::string_view line) { lines_ += line; });
}

LogBatch::~LogBatch() {
  collect_.reset();
  if (!lines_.empty()) {
    logger().write(lines_);
  }
}

}  // namespace muster
