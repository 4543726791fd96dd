// SPDX-License-Identifier: Apache-2.0
#include "base/logger.hpp"

#include "support/catch.hpp"

#include <vector>

using namespace muster;

namespace {

// Captures the logger's lines, and restores its settings.
struct Captured {
  std::vector<std::string> lines;
  LogTo to{[this](std::string_view line) { lines.emplace_back(line); }};

  Captured() = default;
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  ~Captured() {
    logger().set_program("muster");
    logger().set_level(LogLevel::warning);
    logger().set_colours(false);
  }
};

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("logger: one line per message, with program and level; braces are printed literally") {
  const Captured log;
  log_warning("ignoring {braces} and %v in text");
  log_error("lost");
  logger().print("interrupted by SIGINT");
  logger().set_program("50%v");
  log_error("lost");
  CHECK(log.lines == Lines{"muster: warning: ignoring {braces} and %v in text\n",
                           "muster: error: lost\n",
                           "muster: interrupted by SIGINT\n",
                           "50%v: error: lost\n"});
}

TEST_CASE("logger: on a terminal only the level is coloured") {
  const Captured log;
  logger().set_colours(true);
  logger().set_level(LogLevel::trace);
  logger().log(LogLevel::trace, "x");
  logger().log(LogLevel::debug, "x");
  logger().log(LogLevel::info, "x");
  log_warning("x");
  log_error("x");
  logger().print("x");
  CHECK(log.lines == Lines{"muster: \x1b[37mtrace\x1b[m: x\n",
                           "muster: \x1b[36mdebug\x1b[m: x\n",
                           "muster: \x1b[32minfo\x1b[m: x\n",
                           "muster: \x1b[33m\x1b[1mwarning\x1b[m: x\n",
                           "muster: \x1b[31m\x1b[1merror\x1b[m: x\n",
                           "muster: x\n"});
}

TEST_CASE("logger: drops messages of lower levels, but prints lines without a level") {
  const Captured log;
  logger().log(LogLevel::info, "dropped by default");
  CHECK_FALSE(logger().shows(LogLevel::info));
  CHECK(logger().shows(LogLevel::warning));
  logger().set_level(LogLevel::off);
  log_error("dropped");
  logger().print("printed");
  CHECK(log.lines == Lines{"muster: printed\n"});
}

TEST_CASE("logger: the newest destination that still exists receives the lines") {
  const Captured first;
  auto second = std::make_unique<Captured>();
  {
    const Captured third;
    second.reset();
    log_error("for the third");
    CHECK(third.lines == Lines{"muster: error: for the third\n"});
  }
  log_error("for the first");
  CHECK(first.lines == Lines{"muster: error: for the first\n"});
}

TEST_CASE("logger: a batch is written in one piece at its end") {
  const Captured log;
  {
    const LogBatch batch;
    log_error("one");
    log_error("two");
    CHECK(log.lines.empty());
  }
  { const LogBatch empty; }
  CHECK(log.lines == Lines{"muster: error: one\nmuster: error: two\n"});
}

TEST_CASE("logger: parses our names and Python's names of levels") {
  CHECK(parse_log_level(" WARN ") == LogLevel::warning);
  CHECK(parse_log_level("NOTSET") == LogLevel::trace);
  CHECK(parse_log_level("Critical") == LogLevel::error);
  CHECK(parse_log_level("off") == LogLevel::off);
  const auto refused = parse_log_level("loud");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::usage);
  CHECK(refused.error().message.find("'loud'") != std::string::npos);
}
