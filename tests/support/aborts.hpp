// SPDX-License-Identifier: Apache-2.0
// Whether a call breaks a MUSTER_CHECK: it is made in a child, whose standard error is returned.
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

// What the child printed before SIGABRT ended it; "did not abort" where something else did.
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
