// SPDX-License-Identifier: Apache-2.0
// EventLog: the events that it keeps and writes, and the errors after which it stops.
#include "agent/sinks/event_log.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace muster;

namespace {

struct Bench {
  explicit Bench(const EventLogLimits& limits = {})
      : log(
            [this](const std::string& where) -> Result<EventLog::Write> {
              folder = where;
              if (!can_be_made) {
                return failure(Errc::system, "no such folder");
              }
              return [this](std::string_view text) { return write(text); };
            },
            [this] { return now; },
            [this](const std::string& text) { trouble.push_back(text); },
            limits) {}

  std::string folder;
  std::string written;
  std::vector<std::string> trouble;
  std::size_t room = std::size_t{1} << 30;   // free space on the disk
  std::size_t piece = std::size_t{1} << 30;  // maximum bytes per write
  bool can_be_made = true;
  TimePoint now{};
  Duration delay{};  // duration of each write
  EventLog log;

  ssize_t write(std::string_view text) {
    const std::size_t count = std::min({text.size(), room, piece});
    if (count == 0) {
      errno = ENOSPC;
      return -1;
    }
    written += text.substr(0, count);
    room -= count;
    now += delay;
    return static_cast<ssize_t>(count);
  }

  void tell(event::What what) { log.take(JobEvent{1000, "node1", 1, std::move(what)}); }

  void begin(const std::string& logs) { tell(event::RoundBegun{Assignment{}, false, logs, logs}); }

  [[nodiscard]] auto lines() const { return std::ranges::count(written, '\n'); }
};

}  // namespace

TEST_CASE("event log: events that precede the log folder are written first") {
  Bench bench;
  bench.tell(event::JobStarted{"train.py", 2, 0, "1.0"});
  CHECK(bench.written.empty());
  bench.begin("/logs/run");
  CHECK(bench.folder == "/logs/run");
  CHECK(bench.lines() == 2);
  CHECK(bench.written.find("job_started") < bench.written.find("round_begun"));
  bench.tell(event::WorkersKilled{});
  CHECK(bench.lines() == 3);
}

TEST_CASE("event log: without a log folder it creates no file and prints no warning") {
  Bench bench;
  bench.begin("");
  bench.begin("/logs/run");
  CHECK(bench.folder.empty());
  CHECK(bench.trouble.empty());
}

TEST_CASE("event log: recreates a removed file at the next round") {
  Bench bench;
  bench.begin("/logs/run");
  bench.begin("/elsewhere/run");
  CHECK(bench.folder == "/elsewhere/run");
  bench.can_be_made = false;  // it already exists
  bench.begin("/elsewhere/run");
  CHECK(bench.lines() == 3);
  CHECK(bench.trouble.empty());
}

TEST_CASE("event log: continues after a short write") {
  Bench bench;
  bench.piece = 7;
  bench.begin("/logs/run");
  CHECK(bench.lines() == 1);
  CHECK(bench.trouble.empty());
}

TEST_CASE("event log: reports a full disk once and stops writing") {
  Bench bench;
  bench.begin("/logs/run");
  bench.room = 10;
  bench.tell(event::WorkersKilled{});
  bench.tell(event::WorkersKilled{});
  bench.room = 10'000;  // space was freed, but the file already has a gap
  bench.tell(event::WorkersKilled{});
  REQUIRE(bench.trouble.size() == 1);
  CHECK(bench.trouble.front() ==
        "cannot write 'events.jsonl': No space left on device; no further events will be logged");
  CHECK(bench.lines() == 1);
}

TEST_CASE("event log: a slow disk delays the launcher by at most one second in total") {
  Bench bench;
  bench.begin("/logs/run");
  bench.delay = kSlowEventWrite;  // not slow yet
  for (int i = 0; i < 20; ++i) {
    bench.tell(event::WorkersKilled{});
  }
  CHECK(bench.lines() == 21);
  bench.delay = std::chrono::milliseconds(600);
  bench.tell(event::WorkersKilled{});
  CHECK(bench.trouble.empty());
  bench.tell(event::WorkersKilled{});
  bench.tell(event::WorkersKilled{});
  CHECK(bench.lines() == 23);
  REQUIRE(bench.trouble.size() == 1);
  CHECK(bench.trouble.front() ==
        "writes to 'events.jsonl' are too slow (1.2s so far); no further events will be logged");
}

TEST_CASE("event log: reports once that it cannot create the file") {
  Bench bench;
  bench.can_be_made = false;
  bench.begin("/logs/run");
  bench.begin("/logs/run");
  CHECK(bench.trouble.size() == 1);
}

TEST_CASE("event log: limits both the events kept without a folder and the file size") {
  Bench bench({.file_bytes = std::size_t{2} << 20, .kept_bytes = 2000});
  const std::string text(1000, 'x');
  for (int i = 0; i < 10; ++i) {
    bench.tell(event::Message{LogLevel::info, text});
  }
  bench.begin("/logs/run");
  CHECK(bench.written.size() > 2000);
  CHECK(bench.written.size() < 5000);
  const std::string long_text(std::size_t{1} << 18, 'x');
  for (int i = 0; i < 20; ++i) {
    bench.tell(event::Message{LogLevel::info, long_text});
  }
  CHECK(bench.written.size() <= std::size_t{2} << 20);
  CHECK(bench.trouble == std::vector<std::string>{"events.jsonl has reached 2 MiB; "
                                                  "no further events will be logged"});
}

TEST_CASE("event log: opens only a regular file that it creates itself, never a pipe or symlink") {
  std::string folder = "/tmp/muster_events_XXXXXX";
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const std::string path = folder + "/events.jsonl";
  SECTION("a new file") {
    const auto write = open_event_file(folder);
    REQUIRE(write);
    CHECK((*write)("x\n") == 2);
  }
  SECTION("a pipe without a reader") {
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    CHECK_FALSE(open_event_file(folder));
  }
  SECTION("a symlink") {
    REQUIRE(::symlink("/dev/full", path.c_str()) == 0);
    CHECK_FALSE(open_event_file(folder));
  }
  ::unlink(path.c_str());
  ::rmdir(folder.c_str());
}
