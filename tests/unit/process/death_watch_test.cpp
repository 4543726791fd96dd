// SPDX-License-Identifier: Apache-2.0
// The launcher's half alone: what the kernel reports about a process.
// tests/unit/process/death_notice_test.cpp covers workers that hold notices.
#include "process/deaths/death_watch.hpp"

#include "support/catch.hpp"

#include <csignal>
#include <string>

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace muster;

namespace {

// A line with this state and status, as written by the kernel.
std::string line(char state,
                 const std::string& status,
                 const std::string& name = "train",
                 int flags = 0x400,
                 int pending = 0) {
  std::string text = "4711 (" + name + ") " + state;
  for (int field = 4; field < 52; ++field) {
    text += " " + std::to_string(field == 9 ? flags : field == 31 ? pending : field);
  }
  return text + " " + status + "\n";
}

}  // namespace

TEST_CASE("death watch: reads the status of a dying process as wait would return it") {
  CHECK(parse_dying(line('R', "9")) == ExitStatus{.signaled = true, .value = SIGKILL});
  CHECK(parse_dying(line('Z', "139")) ==
        ExitStatus{.signaled = true, .value = SIGSEGV, .core_dumped = true});
  CHECK(parse_dying(line('Z', "768")) == ExitStatus{.signaled = false, .value = 3});
  CHECK(parse_dying(line('D', "65280")) == ExitStatus{.signaled = false, .value = 255});
  CHECK(parse_dying(line('R', "9", "a) T 19 (b")) == ExitStatus{.signaled = true, .value = 9});
}

TEST_CASE("death watch: a process that succeeds or does not exit is not dying") {
  CHECK_FALSE(parse_dying(line('Z', "0")));
  CHECK_FALSE(parse_dying(line('R', "0")));
  CHECK_FALSE(parse_dying(line('T', "19")));  // stopped: the field contains the stop signal
  CHECK_FALSE(parse_dying(line('t', "5")));   // stopped by a debugger
  CHECK_FALSE(parse_dying(line('R', "-1")));
}

TEST_CASE("death watch: if the status is hidden or 0, flags and state reveal the exit") {
  CHECK(parse_ending(line('R', "9")) == Ending{ExitStatus{.signaled = true, .value = SIGKILL}});
  CHECK(parse_ending(line('Z', "0")) == Ending{});
  CHECK(parse_ending(line('X', "0")) == Ending{});
  CHECK(parse_ending(line('D', "0", "train", 0x4 | 0x400)) == Ending{});
  CHECK(parse_ending(line('R', "0", "train", 0x400, 0x100)) == Ending{});  // SIGKILL is pending
  CHECK_FALSE(parse_ending(line('D', "0", "train", 0x400, 0x4000)));       // SIGTERM is
  CHECK_FALSE(parse_ending(line('T', "19", "train", 0x400)));
  CHECK_FALSE(parse_ending(""));
  CHECK_FALSE(parse_ending("4711 (train) "));
  CHECK_FALSE(parse_ending("4711 (train) S 1 2 3 4 5 x"));
}

TEST_CASE("death watch: rejects garbage") {
  const std::string whole = line('R', "9");
  for (std::size_t length = 0; length + 2 < whole.size(); ++length) {
    INFO(length);
    CHECK_FALSE(parse_dying(std::string_view(whole).substr(0, length)));
  }
  CHECK_FALSE(parse_dying(line('R', "x")));
  CHECK_FALSE(parse_dying(line('R', "99999999999999")));
  CHECK_FALSE(parse_dying(")"));
}

TEST_CASE("death watch: without free descriptors it does not poll an unanswered request forever") {
  auto poller = Poller::open();
  REQUIRE(poller);
  DeathWatch watch(*poller, [](pid_t) { return true; });
  watch.on_ready();  // a sanitizer also needs descriptors when it first inspects an object
  const UniqueFd asker(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const UnixAddress address = liveness_address(::getpid());
  REQUIRE(::connect(asker.get(), address.raw(), address.size) == 0);
  pollfd ready{poller->fd(), POLLIN, 0};
  CHECK(::poll(&ready, 1, 0) == 1);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{0, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  watch.on_ready();
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(::poll(&ready, 1, 0) == 0);
  CHECK(watch.take_dying().empty());
}
