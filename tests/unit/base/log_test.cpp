// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include "base/fd.hpp"
#include "support/catch.hpp"

#include <array>
#include <string>

#include <unistd.h>

using namespace muster;

namespace {

// What is written to standard error while `write` runs; short, so that a pipe holds it.
template <class Write>
std::string captured_stderr(Write write) {
  auto pipe = make_pipe();
  REQUIRE(pipe);
  const UniqueFd saved(::dup(STDERR_FILENO));
  REQUIRE(::dup2(pipe->write.get(), STDERR_FILENO) >= 0);
  write();
  ::dup2(saved.get(), STDERR_FILENO);
  pipe->write.reset();
  std::array<char, 4096> text{};
  const auto bytes = ::read(pipe->read.get(), text.data(), text.size());
  return {text.data(), static_cast<std::size_t>(bytes)};
}

}  // namespace

TEST_CASE("log: one line each, with the program and the level, and what is below is silent") {
  const std::string text = captured_stderr([] {
    Log log("muster", LogLevel::warning);
    log.info("not shown");
    log.warning("ignoring {braces} in words");
    log.error("lost");
  });
  CHECK(text == "muster: warning: ignoring {braces} in words\nmuster: error: lost\n");
}

TEST_CASE("log: a log that is off says nothing") {
  CHECK(captured_stderr([] { Log("muster", LogLevel::off).error("lost"); }).empty());
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
