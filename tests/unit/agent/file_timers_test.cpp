// SPDX-License-Identifier: Apache-2.0
#include "agent/watch/file_timers.hpp"

#include "support/catch.hpp"

#include <csignal>
#include <string>

using namespace muster;

namespace {

// As written by PyTorch's FileTimerClient.
std::string request(int pid, const std::string& scope, double expires, int signal = SIGKILL) {
  return R"({"version": 1, "pid": )" + std::to_string(pid) + R"(, "scope_id": ")" + scope +
         R"(", "expiration_time": )" + std::to_string(expires) + R"(, "signal": )" +
         std::to_string(signal) + "}\n";
}

std::string release(int pid, const std::string& scope) {
  return R"({"version": 1, "pid": )" + std::to_string(pid) + R"(, "scope_id": ")" + scope +
         R"(", "expiration_time": -1, "signal": 0})" + "\n";
}

}  // namespace

TEST_CASE("file timers: expire at their time, once") {
  FileTimers timers;
  CHECK_FALSE(timers.next());
  CHECK(timers.take(request(7, "train.py#3", 105.5), 100) == 0);
  CHECK(timers.next() == 105.5);
  CHECK(timers.expire(105.4).empty());
  const auto expired = timers.expire(105.5);
  REQUIRE(expired.size() == 1);
  CHECK(expired.front() == FileTimer{7, "train.py#3", 100, 105.5, SIGKILL});
  CHECK_FALSE(timers.next());
  CHECK(timers.expire(200).empty());
}

TEST_CASE("file timers: a released timer never expires, and a new request replaces the old one") {
  FileTimers timers;
  CHECK(timers.take(request(7, "a", 101) + release(7, "a") + release(7, "b"), 100) == 0);
  CHECK(timers.expire(200).empty());
  CHECK(timers.take(request(7, "a", 101) + request(7, "a", 150), 100) == 0);
  CHECK(timers.expire(149).empty());
  CHECK(timers.expire(150).size() == 1);
}

TEST_CASE("file timers: of several expired timers of a process, the first one with a signal") {
  FileTimers timers;
  static_cast<void>(timers.take(request(7, "a", 101, 0) + request(7, "b", 103) +
                                    request(7, "c", 102, SIGTERM) + request(8, "d", 101, -1),
                                100));
  const auto expired = timers.expire(110);
  REQUIRE(expired.size() == 2);
  CHECK(expired[0] == FileTimer{8, "d", 100, 101, 0});
  CHECK(expired[1] == FileTimer{7, "c", 100, 102, SIGTERM});
  CHECK_FALSE(timers.next());
}

TEST_CASE("file timers: a process that has exited has no timers") {
  FileTimers timers;
  static_cast<void>(timers.take(request(7, "a", 101) + request(8, "a", 101), 100));
  timers.forget(7);
  REQUIRE(timers.expire(102).size() == 1);
  static_cast<void>(timers.take(request(7, "a", 101), 100));
  timers.clear();
  CHECK_FALSE(timers.next());
}

TEST_CASE("file timers: requests may arrive in pieces") {
  FileTimers timers;
  const std::string bytes = request(7, "a", 101) + request(8, "b", 102);
  for (const char byte : bytes) {
    CHECK(timers.take({&byte, 1}, 100) == 0);
  }
  CHECK(timers.expire(102).size() == 2);
}

TEST_CASE("file timers: invalid requests are dropped and counted") {
  FileTimers timers;
  for (const char* line : {"",
                           "x",
                           "[]",
                           "{}",
                           R"({"pid": 0, "scope_id": "a", "expiration_time": 1, "signal": 9})",
                           R"({"pid": 7.5, "scope_id": "a", "expiration_time": 1, "signal": 9})",
                           R"({"pid": 99999999999, "scope_id": "a", "expiration_time": 1,
                               "signal": 9})",
                           R"({"pid": 7, "scope_id": 1, "expiration_time": 1, "signal": 9})",
                           R"({"pid": 7, "scope_id": "a", "expiration_time": "1", "signal": 9})",
                           R"({"pid": 7, "scope_id": "a", "expiration_time": 1e999, "signal": 9})",
                           R"({"pid": 7, "scope_id": "a", "expiration_time": 1, "signal": 99})"}) {
    INFO(line);
    CHECK_FALSE(parse_file_timer(line));
  }
  CHECK(timers.take("x\ny\n" + request(7, "a", 101), 100) == 2);
  CHECK(timers.expire(101).size() == 1);
}

TEST_CASE("file timers: a line that is too long is dropped, and the next one counts") {
  FileTimers timers;
  const std::string longest(FileTimers::kLineMax, 'x');
  CHECK(timers.take(longest, 100) == 0);
  CHECK(timers.take(request(7, longest, 101), 100) == 1);
  CHECK(timers.take(request(7, longest, 101), 100) == 1);
  CHECK(timers.take(request(7, "a", 101), 100) == 0);
  CHECK(timers.expire(101).size() == 1);
}

TEST_CASE("file timers: their number is limited") {
  FileTimers timers;
  for (std::size_t i = 0; i < FileTimers::kTimersMax; ++i) {
    CHECK(timers.take(request(7, std::to_string(i), 101), 100) == 0);
  }
  CHECK(timers.take(request(7, "more", 101), 100) == 1);
  CHECK(timers.take(request(7, "1", 102), 100) == 0);
}
