// SPDX-License-Identifier: Apache-2.0
#include "process/run/terminal_watch.hpp"

#include "support/catch.hpp"

#include <string>

#include <sys/syscall.h>

using namespace muster;

TEST_CASE("terminal watch: parses a process's relation to its terminal from /proc/PID/stat") {
  const auto there = parse_terminal_groups("17 (a (b) c) S 1 17 16 34816 20 4194304 0 0");
  REQUIRE(there);
  CHECK(there->state == 'S');
  CHECK(there->parent == 1);
  CHECK(there->group == 17);
  CHECK(there->session == 16);
  CHECK(there->foreground == 20);
  CHECK(there->is_background());
  CHECK_FALSE(parse_terminal_groups("17 (x) S 1 17 16 34816 17 0")->is_background());
  CHECK_FALSE(parse_terminal_groups("17 (x) S 1 17 16 0 -1 0")->is_background());
  CHECK_FALSE(parse_terminal_groups("17 (x) S 1 17"));
  CHECK_FALSE(parse_terminal_groups(""));
}

TEST_CASE(
    "terminal watch: finds the descriptor that a process waits to read in /proc/PID/syscall") {
  const auto call = [](long number, const std::string& first) {
    return awaited_descriptor(std::to_string(number) + " " + first +
                              " 0x7f00 0x400 0x0 0x0 0x0 0x7f");
  };
  CHECK(call(SYS_read, "0x0") == 0);
  CHECK(call(SYS_read, "0x5") == 5);
  CHECK(call(SYS_pselect6, "0x1") == 0);
  CHECK_FALSE(call(SYS_pselect6, "0x8"));  // also waits for other events: no program stops for that
  CHECK_FALSE(call(SYS_write, "0x0"));
  CHECK_FALSE(awaited_descriptor("running"));
  CHECK_FALSE(awaited_descriptor(""));
}
