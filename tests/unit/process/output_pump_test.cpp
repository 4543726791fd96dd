// SPDX-License-Identifier: Apache-2.0
#include "process/output/output_pump.hpp"

#include "base/text.hpp"
#include "job_probe.hpp"
#include "process/tree/descendants.hpp"
#include "support/catch.hpp"

#include <csignal>
#include <cstdlib>
#include <map>

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace muster;
using namespace muster::testing;

namespace {

std::vector<std::string> quiet_job(std::vector<std::string> args) {
  args.insert(args.begin(), "--quiet");
  return mini_job(args);
}

// The output of each rank, keyed by the line prefix, which is removed.
std::map<std::string, std::string> by_prefix(const std::string& console) {
  std::map<std::string, std::string> ranks;
  for (const auto& line : split(console, '\n')) {
    if (!line.empty()) {
      ranks[line.substr(0, 2)] += line.substr(2) + "\n";
    }
  }
  return ranks;
}

std::string direct_output(const std::string& verb, const std::string& word, int rank) {
  const auto variable = "RANK=" + std::to_string(rank);
  JobProbe puppet({.argv = {"/usr/bin/env", variable, kPuppet, verb, word}});
  REQUIRE(puppet.nothing_is_left());
  return puppet.out();
}

// A user namespace has its own limits.
void refuse_inotify() {
  if (::unshare(CLONE_NEWUSER) != 0) {
    std::_Exit(1);
  }
  const int limit = ::open("/proc/sys/user/max_inotify_instances", O_WRONLY | O_CLOEXEC);
  if (::write(limit, "0", 1) != 1) {
    std::_Exit(1);
  }
}

}  // namespace

TEST_CASE("output: eight ranks' partial lines and garbage reach the console as whole lines",
          "[slow]") {
  const TempDir dir;
  const std::string kind = GENERATE("tee", "capture");
  JobProbe job(
      {.argv = quiet_job(
           {"--out", kind, "--dir", dir.path(), "--prefix", "", "8", kPuppet, "mix", "10000"})});
  REQUIRE(job.nothing_is_left());
  CHECK(job.exit_code() == 0);
  const auto ranks = by_prefix(job.out());
  REQUIRE(ranks.size() == 8);
  for (int rank = 0; rank < 8; ++rank) {
    const auto expected = direct_output("mix", "10000", rank);
    // Not compared with CHECK(==), because a failure would print megabytes.
    CHECK((ranks.at(std::to_string(rank) + ":") == expected));
    if (kind == "tee") {
      CHECK((read_file(dir.path() + "/" + std::to_string(rank) + "/stdout.log") == expected));
    }
  }
}

TEST_CASE("output: a file is complete even if its rank is killed right after the last write") {
  const TempDir dir;
  JobProbe job({.argv = quiet_job({"--out",
                                   "tee",
                                   "--dir",
                                   dir.path(),
                                   "--prefix",
                                   "",
                                   "4",
                                   kPuppet,
                                   "lines",
                                   "2000",
                                   "put",
                                   "unfinished",
                                   "signal",
                                   "9"})});
  REQUIRE(job.nothing_is_left());
  CHECK(job.exit_code() == 128 + SIGKILL);
  const auto ranks = by_prefix(job.out());
  for (int rank = 0; rank < 4; ++rank) {
    const auto expected = direct_output("lines", "2000", rank) + "unfinished";
    CHECK((read_file(dir.path() + "/" + std::to_string(rank) + "/stdout.log") == expected));
    CHECK((ranks.at(std::to_string(rank) + ":") == expected + "\n"));
  }
}

TEST_CASE("output: redirected only goes to the file, discarded nowhere, inherited unchanged") {
  const TempDir dir;
  JobProbe job({.argv = quiet_job({"--out",
                                   "file",
                                   "--err",
                                   "discard",
                                   "--dir",
                                   dir.path(),
                                   "1",
                                   kPuppet,
                                   "say",
                                   "a",
                                   "warn",
                                   "b"})});
  REQUIRE(job.nothing_is_left());
  CHECK(job.out().empty());
  CHECK(job.err().empty());
  CHECK(read_file(dir.path() + "/0/stdout.log") == "a\n");
  JobProbe plain({.argv = quiet_job({"1", kPuppet, "put", "as it is"})});
  REQUIRE(plain.nothing_is_left());
  CHECK(plain.out() == "as it is");
}

TEST_CASE("output: a closed console affects neither the files nor the exit code") {
  const TempDir dir;
  JobProbe job({.argv = quiet_job({"--out",
                                   "tee",
                                   "--dir",
                                   dir.path(),
                                   "--prefix",
                                   "",
                                   "2",
                                   kPuppet,
                                   "say",
                                   "first",
                                   "wait-file",
                                   dir.path() + "/go",
                                   "lines",
                                   "3000",
                                   "exit",
                                   "9"})});
  REQUIRE(job.says("first"));
  job.close_output();
  write_file(dir.path() + "/go", "");
  CHECK(job.exit_code() == 9);
  for (int rank = 0; rank < 2; ++rank) {
    const auto expected = "first\n" + direct_output("lines", "3000", rank);
    CHECK((read_file(dir.path() + "/" + std::to_string(rank) + "/stdout.log") == expected));
  }
}

TEST_CASE("output: an unread console never blocks workers that write to files", "[slow]") {
  const TempDir dir;
  const auto done = dir.path() + "/done";
  JobProbe job({.argv = quiet_job({"--out",
                                   "tee",
                                   "--dir",
                                   dir.path(),
                                   "--prefix",
                                   "",
                                   "1",
                                   kPuppet,
                                   "lines",
                                   "60000",
                                   "touch",
                                   done})});
  // No process reads the console (which holds 64 KiB of 2 MB) until the worker has written
  // everything.
  JobProbe waiter({.argv = {kPuppet, "wait-file", done}});
  CHECK(waiter.exit_code() == 0);
  REQUIRE(job.nothing_is_left());
  const auto expected = direct_output("lines", "60000", 0);
  CHECK((by_prefix(job.out()).at("0:") == expected));
  CHECK((read_file(dir.path() + "/0/stdout.log") == expected));
}

TEST_CASE("output: gives up a blocked console after the timeout", "[slow]") {
  const TempDir dir;
  JobProbe job({.argv = quiet_job({"--timeout",
                                   "50",
                                   "--out",
                                   "tee",
                                   "--dir",
                                   dir.path(),
                                   "--prefix",
                                   "",
                                   "1",
                                   kPuppet,
                                   "lines",
                                   "60000",
                                   "exit",
                                   "6"})});
  CHECK(job.exit_code() == 6);  // although no process reads
  REQUIRE(job.nothing_is_left());
  CHECK((read_file(dir.path() + "/0/stdout.log") == direct_output("lines", "60000", 0)));
}

TEST_CASE("output: another signal ends the wait for a blocked console", "[slow]") {
  const TempDir dir;
  const int how = GENERATE(SIGINT, SIGKILL);
  JobProbe job({.argv = quiet_job({"--tell-end",
                                   "--timeout",
                                   "600000",
                                   "--out",
                                   "tee",
                                   "--dir",
                                   dir.path(),
                                   "--prefix",
                                   "",
                                   "1",
                                   kPuppet,
                                   "lines",
                                   "60000"})});
  REQUIRE(job.warns("finishing\n"));  // the worker has exited; its output waits for the console
  const pid_t agent = children_of(job.pid()).at(0);
  job.signal(how);
  CHECK(ends(agent));
  CHECK(job.exit_code() == (how == SIGKILL ? 128 + SIGKILL : 0));
}

TEST_CASE("output: prefixes are coloured only on a terminal") {
  const bool plain = GENERATE(false, true);
  const UniqueFd master(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE((::grantpt(master.get()) == 0 && ::unlockpt(master.get()) == 0));
  const UniqueFd terminal(::open(::ptsname(master.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  const TempDir dir;
  std::vector<std::string> args = {
      "--out", "tee", "--dir", dir.path(), "--prefix", "r", "1", kPuppet, "say", "x"};
  if (plain) {
    args.insert(args.begin(), "--plain");
  }
  JobProbe job({.argv = quiet_job(args), .in_child = {}, .standard_output = terminal.get()});
  REQUIRE(job.nothing_is_left());
  std::string shown(4096, '\0');
  const auto count = ::read(master.get(), shown.data(), shown.size());
  CHECK(shown.substr(0, static_cast<std::size_t>(std::max<ssize_t>(count, 0))) ==
        (plain ? "r0:x\r\n" : "\x1b[36mr0:\x1b[0mx\r\n"));
}

TEST_CASE("output: without inotify a timer polls a followed file") {
  const TempDir dir;
  JobProbe job({.argv = quiet_job({"--out",
                                   "tee",
                                   "--dir",
                                   dir.path(),
                                   "--prefix",
                                   "",
                                   "1",
                                   kPuppet,
                                   "say",
                                   "a",
                                   "wait-file",
                                   dir.path() + "/1",
                                   "say",
                                   "b",
                                   "wait"}),
                .in_child = refuse_inotify});
  if (!job.says("0:a\n")) {
    WARN("skipped: needs a user namespace");
    return;
  }
  write_file(dir.path() + "/1", "");
  CHECK(job.says("0:b\n"));
}

TEST_CASE("output: continues to follow a file that is renamed, removed or truncated") {
  const TempDir dir;
  const auto log = dir.path() + "/0/stdout.log";
  const std::string how = GENERATE("rename", "remove", "truncate");
  JobProbe job({.argv = quiet_job({"--out",
                                   "tee",
                                   "--dir",
                                   dir.path(),
                                   "--prefix",
                                   "",
                                   "1",
                                   kPuppet,
                                   "say",
                                   "a longer line",
                                   "wait-file",
                                   dir.path() + "/1",
                                   "say",
                                   "b",
                                   "wait-file",
                                   dir.path() + "/2",
                                   "say",
                                   "c",
                                   "wait"})});
  REQUIRE(job.says("0:a longer line\n"));
  if (how == "rename") {
    REQUIRE(::rename(log.c_str(), (log + ".1").c_str()) == 0);
    write_file(log, "");
  } else {
    REQUIRE((how == "remove" ? ::unlink(log.c_str()) : ::truncate(log.c_str(), 0)) == 0);
  }
  write_file(dir.path() + "/1", "");
  REQUIRE(job.says("0:b\n"));
  write_file(dir.path() + "/2", "");
  CHECK(job.says("0:c\n"));
}

TEST_CASE("output: forwards standard input on request") {
  const TempDir dir;
  write_file(dir.path() + "/in", "four");
  const UniqueFd input(::open((dir.path() + "/in").c_str(), O_RDONLY | O_CLOEXEC));
  JobProbe job({.argv = quiet_job({"--stdin", "1", kPuppet, "stdin"}),
                .in_child = [&] { ::dup2(input.get(), 0); }});
  REQUIRE(job.nothing_is_left());
  CHECK(job.out() == "read 4\n");
}

TEST_CASE("output: does not change the console's open file description") {
  auto pipe = *make_pipe();
  const TempDir dir;
  JobProbe job({.argv = quiet_job({"--out", "tee", "--dir", dir.path(), "1", kPuppet, "say", "x"}),
                .in_child = {},
                .standard_output = pipe.write.get()});
  REQUIRE(job.nothing_is_left());
  CHECK((::fcntl(pipe.write.get(), F_GETFL) & O_NONBLOCK) == 0);
}

TEST_CASE("output: shows a lone worker's captured prompt before its newline") {
  JobProbe job(
      {.argv = quiet_job(
           {"--out", "capture", "1", kPuppet, "handle", "TERM", "put", "name? ", "wait"})});
  CHECK(job.says("name? "));
  job.signal(SIGTERM);
  REQUIRE(job.nothing_is_left());
  CHECK(job.out() == "name? got TERM\n");
}

TEST_CASE("output: a grandchild that keeps the pipe open does not delay the job") {
  JobProbe job({.argv = quiet_job({"--out",
                                   "capture",
                                   "--prefix",
                                   "",
                                   "2",
                                   kPuppet,
                                   "fork-setsid",
                                   "{",
                                   "say",
                                   "held",
                                   "wait",
                                   "}",
                                   "say",
                                   "x"})});
  CHECK(job.exit_code() == 0);
  REQUIRE(job.nothing_is_left());
}

TEST_CASE("output: keeps the last lines of standard error, from pipe and file") {
  const TempDir dir;
  const std::string kind = GENERATE("capture", "file", "tee");
  JobProbe job({.argv = mini_job({"--tails",
                                  "--err",
                                  kind,
                                  "--dir",
                                  dir.path(),
                                  "--prefix",
                                  "p",
                                  "2",
                                  kPuppet,
                                  "warn",
                                  "Traceback",
                                  "complain",
                                  "ValueError: no"})});
  REQUIRE(job.nothing_is_left());
  CHECK(job.out().find("tail 0: Traceback\nValueError: no\n") != std::string::npos);
  CHECK(job.out().find("tail 1: Traceback\nValueError: no\n") != std::string::npos);
  CHECK((job.err().find("p0:ValueError: no\n") != std::string::npos) == (kind != "file"));
}

TEST_CASE("output: lines that match a filter also go to the filtered file") {
  const TempDir dir;
  JobProbe job({.argv = quiet_job({"--out",
                                   "tee",
                                   "--dir",
                                   dir.path(),
                                   "--prefix",
                                   "",
                                   "--filter",
                                   "loss",
                                   "2",
                                   kPuppet,
                                   "say",
                                   "loss 1",
                                   "say",
                                   "other",
                                   "put",
                                   "loss 2"})});
  REQUIRE(job.nothing_is_left());
  const auto ranks = by_prefix(read_file(dir.path() + "/filtered_stdout.log"));
  CHECK(ranks.at("0:") == "loss 1\nloss 2\n");
  CHECK(ranks.at("1:") == "loss 1\nloss 2\n");
}

TEST_CASE("output: two streams on one pipe do not interleave within lines") {
  const TempDir dir;
  auto pipe = *make_pipe();
  const int shared = pipe.write.get();
  JobProbe job({.argv = quiet_job({"--out",
                                   "tee",
                                   "--err",
                                   "tee",
                                   "--dir",
                                   dir.path(),
                                   "--prefix",
                                   "",
                                   "2",
                                   "/bin/sh",
                                   "-c",
                                   "\"$0\" lines 5000 & \"$0\" lines 5000 >&2; wait",
                                   kPuppet}),
                .in_child = [shared] { ::dup2(shared, 2); },
                .standard_output = shared});
  pipe.write.reset();
  std::string console;
  std::string buffer(65536, '\0');
  for (ssize_t count = 1; count > 0;) {
    count = ::read(pipe.read.get(), buffer.data(), buffer.size());
    console.append(buffer, 0, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }
  std::map<std::string, int> seen;
  for (const auto& line : split(console, '\n')) {
    ++seen[line];
  }
  CHECK(seen.size() == 2 * 5000 + 1);
  for (const auto& [line, count] : seen) {
    CHECK((count == 2 || line.empty()));
  }
}

TEST_CASE("console sink: writes to a socket without blocking and without changing it") {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0);
  const UniqueFd ours(ends[0]);
  UniqueFd reader(ends[1]);
  auto poller = *Poller::open();
  bool room = false;
  ConsoleSink sink(ours.get(), poller, [&] { room = true; });
  while (sink.has_room()) {
    sink.buffer().append(100'000, 'x').append("\n");
    sink.flush();
  }
  CHECK((::fcntl(ours.get(), F_GETFL) & O_NONBLOCK) == 0);
  std::string buffer(1 << 20, '\0');
  while (!room && ::read(reader.get(), buffer.data(), buffer.size()) > 0) {
    poller.dispatch(0);
  }
  CHECK(sink.has_room());
  reader.reset();
  sink.buffer().append("nobody reads this\n");
  sink.flush();
  CHECK(sink.empty());  // closed: dropped without a signal
}
