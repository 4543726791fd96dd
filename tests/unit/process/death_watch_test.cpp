// SPDX-License-Identifier: Apache-2.0
// The launcher's half alone: what the kernel says of a process. With workers that hold words:
// tests/unit/collective/launcher_word_test.cpp.
#include "process/death_watch.hpp"

#include "support/catch.hpp"

#include <csignal>
#include <string>

using namespace muster;

namespace {

// A line as the kernel writes it, with this state and status.
std::string line(char state, const std::string& status, const std::string& name = "train") {
  std::string text = "4711 (" + name + ") " + state;
  for (int field = 4; field < 52; ++field) {
    text += " " + std::to_string(field);
  }
  return text + " " + status + "\n";
}

}  // namespace

TEST_CASE("death watch: the status of a process that is ending is read as wait would give it") {
  CHECK(parse_dying(line('R', "9")) == ExitStatus{.signaled = true, .value = SIGKILL});
  CHECK(parse_dying(line('Z', "139")) ==
        ExitStatus{.signaled = true, .value = SIGSEGV, .core_dumped = true});
  CHECK(parse_dying(line('Z', "768")) == ExitStatus{.signaled = false, .value = 3});
  CHECK(parse_dying(line('D', "65280")) == ExitStatus{.signaled = false, .value = 255});
  CHECK(parse_dying(line('R', "9", "a) T 19 (b")) == ExitStatus{.signaled = true, .value = 9});
}

TEST_CASE("death watch: who does not fail, or does not end, is not dying") {
  CHECK_FALSE(parse_dying(line('Z', "0")));
  CHECK_FALSE(parse_dying(line('R', "0")));
  CHECK_FALSE(parse_dying(line('T', "19")));  // stopped: the field holds the signal that did it
  CHECK_FALSE(parse_dying(line('t', "5")));   // held by a debugger
  CHECK_FALSE(parse_dying(line('R', "-1")));
}

TEST_CASE("death watch: rubbish is no status") {
  const std::string whole = line('R', "9");
  for (std::size_t length = 0; length + 2 < whole.size(); ++length) {
    INFO(length);
    CHECK_FALSE(parse_dying(std::string_view(whole).substr(0, length)));
  }
  CHECK_FALSE(parse_dying(line('R', "x")));
  CHECK_FALSE(parse_dying(line('R', "99999999999999")));
  CHECK_FALSE(parse_dying(")"));
}
