// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"

#include "support/catch.hpp"

#include <cerrno>
#include <string>

#include <sys/resource.h>

using namespace muster;

TEST_CASE("error: prefixes the message with the action and keeps the kind") {
  const Error error{Errc::timed_out, "no answer"};
  CHECK(error.during("starting rank 3") == Error{Errc::timed_out, "starting rank 3: no answer"});
}

TEST_CASE("error: a failed system call is described with the action and the reason") {
  CHECK(system_error("cannot open 'x'", ENOENT) ==
        Error{Errc::system, "cannot open 'x': No such file or directory"});
}

TEST_CASE("error: failure() creates the unexpected side of a result") {
  const Result<int> result = failure(Errc::usage, "not a number");
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error() == Error{Errc::usage, "not a number"});
}

TEST_CASE("error: EMFILE has the kind exhausted, and the message contains the limit") {
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const auto error = system_error("opening it", EMFILE);
  CHECK(error.code == Errc::exhausted);
  CHECK(error.message == "opening it: Too many open files; the limit is " +
                             std::to_string(limit.rlim_cur) + " (ulimit -n)");
}
