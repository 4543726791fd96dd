// SPDX-License-Identifier: Apache-2.0
#include "base/stream_writer.hpp"

#include "base/clock.hpp"
#include "support/catch.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <string>

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace muster;
using namespace std::chrono_literals;

namespace {

struct Terminal {
  UniqueFd master;
  UniqueFd slave;
};

Terminal open_terminal() {
  Terminal terminal;
  terminal.master = UniqueFd(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE((::grantpt(terminal.master.get()) == 0 && ::unlockpt(terminal.master.get()) == 0));
  terminal.slave =
      UniqueFd(::open(::ptsname(terminal.master.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(terminal.slave);
  return terminal;
}

// The number of bytes that the stream accepts until it is full.
std::size_t fill(const StreamWriter& writer) {
  const std::string chunk(10'000, 'x');
  std::size_t total = 0;
  for (long count = 1; count > 0;) {
    count = writer.write_some(chunk);
    total += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  CHECK(errno == EAGAIN);
  return total;
}

// Runs `body` in a child and returns its exit code, or -1 for a signal.
template <class Body>
int in_child(Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("stream writer: stops at a full pipe, terminal or socket, and keeps its flags") {
  const auto kind = GENERATE(std::string("pipe"), "terminal", "socket");
  std::array<UniqueFd, 2> ends;
  if (kind == "pipe") {
    auto pipe = *make_pipe();
    ends = {std::move(pipe.read), std::move(pipe.write)};
  } else if (kind == "terminal") {
    auto terminal = open_terminal();
    ends = {std::move(terminal.master), std::move(terminal.slave)};
  } else {
    std::array<int, 2> pair{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) == 0);
    ends = {UniqueFd(pair[0]), UniqueFd(pair[1])};
  }
  const StreamWriter writer(ends[1].get());
  CHECK(writer.is_terminal() == (kind == "terminal"));
  CHECK(fill(writer) > 0);
  CHECK((::fcntl(ends[1].get(), F_GETFL) & O_NONBLOCK) == 0);
}

TEST_CASE("stream writer: without /proc an unread terminal does not block the writer") {
  if (::geteuid() != 0) {
    WARN("skipped: needs root to unmount /proc");
    return;
  }
  const auto terminal = open_terminal();
  const int code = in_child([&] {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, "") != 0 ||
        ::umount2("/proc", MNT_DETACH) != 0) {
      return 90;
    }
    const StreamWriter writer(terminal.slave.get());
    const bool took = fill(writer) > 0;
    return took && writer.fd() == terminal.slave.get() ? 0 : 91;
  });
  if (code == 90) {
    WARN("skipped: not permitted to unmount /proc");
    return;
  }
  CHECK(code == 0);
}

TEST_CASE("stream writer: gives up on an unread pipe after the timeout") {
  auto pipe = *make_pipe();
  const std::string much(1 << 20, 'x');  // more than fits into the pipe
  const TimePoint before = steady_now();
  CHECK_FALSE(write_within(pipe.write.get(), much, 50ms));
  CHECK(steady_now() - before >= 50ms);
}

TEST_CASE("stream writer: writes a text completely if it is read") {
  auto pipe = *make_pipe();
  CHECK(write_within(pipe.write.get(), "the end\n", 10s));
  std::array<char, 32> heard{};
  CHECK(::read(pipe.read.get(), heard.data(), heard.size()) == 8);
  CHECK(std::string(heard.data()) == "the end\n");
}

TEST_CASE("stream writer: a closed reader is an error, not a signal") {
  auto pipe = *make_pipe();
  pipe.read.reset();
  CHECK(in_child([&] {
          static_cast<void>(::signal(SIGPIPE, SIG_IGN));  // as prepare_process does
          return write_within(pipe.write.get(), "x", 10s) ? 1 : 0;
        }) == 0);
}

TEST_CASE("stream writer: writes a file at the shared position") {
  std::array<char, 32> path{"/tmp/muster_stream_XXXXXX"};
  const UniqueFd file(::mkstemp(path.data()));
  REQUIRE(file);
  CHECK(::write(file.get(), "one ", 4) == 4);
  CHECK(write_within(file.get(), "two", 1s));
  CHECK(::write(file.get(), " three", 6) == 6);
  std::array<char, 32> text{};
  CHECK(::pread(file.get(), text.data(), text.size(), 0) == 13);
  CHECK(std::string(text.data()) == "one two three");
  ::unlink(path.data());
}
