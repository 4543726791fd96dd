// SPDX-License-Identifier: Apache-2.0
#include "hang/gather/proc_wait.hpp"

#include "support/catch.hpp"

#include <string>

#include <fcntl.h>
#include <sys/syscall.h>

namespace muster::hang {
namespace {

CallFacts facts(long number, const std::string& arguments) {
  const auto call =
      parse_system_call(std::to_string(number) + " " + arguments + " 0x7ffe 0x7f98\n");
  REQUIRE(call);
  return facts_of(*call);
}

}  // namespace

TEST_CASE("parses system calls from /proc") {
  REQUIRE(facts(SYS_read, "0x5 0x7f00 0x10 0x0 0x0 0x0") ==
          CallFacts{.kind = WaitKind::read, .name = "read", .fd = 5});
  REQUIRE(facts(SYS_openat, "0xffffff9c 0x7f00 0x0 0x0 0x0 0x0").path_at == 0x7f00);
  REQUIRE(facts(SYS_futex, "0x1 0x189 0x0 0x0 0x0 0x0").kind == WaitKind::lock);
  REQUIRE(facts(SYS_ppoll, "0x7f00 0x2 0x0 0x0 0x0 0x0").polled_at == 0x7f00);
  REQUIRE(facts(SYS_ppoll, "0x0 0x0 0x7f00 0x0 0x0 0x0").kind == WaitKind::sleep);
  REQUIRE(facts(SYS_pselect6, "0x0 0x0 0x0 0x0 0x7f 0x0").kind == WaitKind::sleep);
  REQUIRE(facts(SYS_fcntl, "0x3 0x7 0x0 0x0 0x0 0x0").kind == WaitKind::file_lock);
  REQUIRE(facts(SYS_fcntl, "0x3 0x1 0x0 0x0 0x0 0x0").kind == WaitKind::other);
  REQUIRE(facts(999999, "0x0 0x0 0x0 0x0 0x0 0x0").kind == WaitKind::other);
}

TEST_CASE("rejects text that is not a system call") {
  for (const char* text : {"",
                           "running",
                           "-1 0x7f 0x7f",
                           "0 0x0 0x0",
                           "x 0x0 0x0 0x0 0x0 0x0 0x0",
                           "0 zz 0x0 0x0 0x0 0x0 0x0 0x0 0x0"}) {
    REQUIRE(!parse_system_call(text));
  }
}

TEST_CASE("finds the process that holds a file lock") {
  const std::string locks =
      "1: POSIX  ADVISORY  WRITE 700 fe:00:12 0 EOF\n"
      "2: FLOCK  ADVISORY  WRITE 800 fe:00:13 0 EOF\n"
      "2: -> FLOCK  ADVISORY  WRITE 801 fe:00:13 0 EOF\n"
      "2: -> FLOCK  ADVISORY  WRITE 802 fe:00:13 0 EOF\n"
      "3: OFDLCK ADVISORY  WRITE -1 fe:00:14 0 EOF\n"
      "3: -> OFDLCK ADVISORY  WRITE 803 fe:00:14 0 EOF\n";
  REQUIRE(lock_holder(locks, 801) == 800);
  REQUIRE(lock_holder(locks, 802) == 800);
  REQUIRE(lock_holder(locks, 803) == 0);
  REQUIRE(lock_holder(locks, 700) == 0);
  REQUIRE(lock_holder("", 801) == 0);
}

}  // namespace muster::hang
