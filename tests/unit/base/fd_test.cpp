// SPDX-License-Identifier: Apache-2.0
#include "base/fd.hpp"

#include "support/catch.hpp"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

using namespace muster;

namespace {

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

}  // namespace

TEST_CASE("fd: a descriptor is closed once, by its owner") {
  auto pipe = make_pipe();
  REQUIRE(pipe);
  const int fd = pipe->read.get();
  UniqueFd moved = std::move(pipe->read);
  CHECK(moved.get() == fd);
  CHECK(is_open(fd));
  moved = UniqueFd();
  CHECK_FALSE(is_open(fd));
  CHECK_FALSE(moved);
}

TEST_CASE("fd: a released descriptor stays open") {
  auto pipe = make_pipe();
  REQUIRE(pipe);
  const int fd = pipe->write.release();
  CHECK_FALSE(pipe->write);
  pipe->write.reset();
  CHECK(is_open(fd));
  ::close(fd);
}

TEST_CASE("fd: pipes are not inherited and can be made non-blocking") {
  auto pipe = make_pipe();
  REQUIRE(pipe);
  CHECK((::fcntl(pipe->read.get(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK((::fcntl(pipe->write.get(), F_GETFD) & FD_CLOEXEC) != 0);
  REQUIRE(set_nonblocking(pipe->read.get()));
  char byte = 0;
  CHECK(::read(pipe->read.get(), &byte, 1) == -1);
  CHECK(errno == EAGAIN);
  CHECK_FALSE(set_nonblocking(-1));
}
