// SPDX-License-Identifier: Apache-2.0
// Tests whether a call violates a MUSTER_CHECK. Makes the call in a child process and returns the
// child's standard error.
#pragma once

#include "base/fd.hpp"
#include "support/catch.hpp"

#include <array>
#include <csignal>
#include <functional>
#include <string>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace muster::testing {

// The child's output before SIGABRT killed it; "did not abort" if it ended in another way.
inline std::string abort_message(const std::function<void()>& call) {
  auto pipe = make_pipe();
  REQUIRE(pipe);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    ::signal(SIGABRT, SIG_DFL);  // Catch's handler would print its own report
    ::dup2(pipe->write.get(), STDERR_FILENO);
    call();
    ::_exit(0);
  }
  pipe->write.reset();
  std::array<char, 4096> buffer{};
  const auto bytes = ::read(pipe->read.get(), buffer.data(), buffer.size());
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && bytes > 0
             ? std::string(buffer.data(), static_cast<std::size_t>(bytes))
             : "did not abort";
}

}  // namespace muster::testing
