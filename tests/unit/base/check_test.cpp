// SPDX-License-Identifier: Apache-2.0
#include "base/check.hpp"

#include "base/fd.hpp"
#include "support/catch.hpp"

#include <array>
#include <csignal>
#include <string>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace muster;

TEST_CASE("check: a broken promise names the condition and the place, and aborts") {
  auto pipe = make_pipe();
  REQUIRE(pipe);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    ::signal(SIGABRT, SIG_DFL);  // Catch's handler would print its own words
    ::dup2(pipe->write.get(), STDERR_FILENO);
    MUSTER_CHECK(1 + 1 == 3);
    ::_exit(0);
  }
  pipe->write.reset();
  std::array<char, 4096> text{};
  const auto bytes = ::read(pipe->read.get(), text.data(), text.size());
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
  const std::string words(text.data(), static_cast<std::size_t>(bytes));
  CHECK(words.find("1 + 1 == 3 does not hold at ") != std::string::npos);
  CHECK(words.find("check_test.cpp:") != std::string::npos);
}

TEST_CASE("check: a promise that holds costs nothing to see") {
  MUSTER_CHECK(1 + 1 == 2);
}
