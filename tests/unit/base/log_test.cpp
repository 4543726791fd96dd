// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include "support/catch.hpp"

using namespace muster;

TEST_CASE("log: one line per message, with program and level; braces are printed literally") {
  CHECK(log_line(LogLevel::warning, "ignoring {braces} in text") ==
        "muster: warning: ignoring {braces} in text\n");
  CHECK(log_line(LogLevel::error, "lost") == "muster: error: lost\n");
}

TEST_CASE("log: on a terminal only the level is coloured") {
  CHECK(log_line(LogLevel::info, "x", true) == "muster: \x1b[32minfo\x1b[m: x\n");
}

TEST_CASE("log: levels by our names and by Python's") {
  CHECK(parse_log_level(" WARN ") == LogLevel::warning);
  CHECK(parse_log_level("NOTSET") == LogLevel::trace);
  CHECK(parse_log_level("Critical") == LogLevel::error);
  CHECK(parse_log_level("off") == LogLevel::off);
  const auto refused = parse_log_level("loud");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::usage);
  CHECK(refused.error().message.find("'loud'") != std::string::npos);
}
