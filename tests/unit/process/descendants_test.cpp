// SPDX-License-Identifier: Apache-2.0
#include "process/tree/descendants.hpp"

#include "job_probe.hpp"
#include "process/tree/gpu_use.hpp"
#include "process/tree/sweeper.hpp"
#include "process/tree/tree_use.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <csignal>
#include <cstdlib>

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace muster;
using namespace muster::testing;

namespace {

ProcessRow row(pid_t pid, pid_t parent) {
  return {.pid = pid, .parent = parent, .group = 0, .state = 'S', .command = "x"};
}

std::vector<pid_t> pids_below(pid_t root, const std::vector<ProcessRow>& rows) {
  std::vector<pid_t> pids;
  for (const auto& each : rows_below(root, rows)) {
    pids.push_back(each.pid);
  }
  return pids;
}

}  // namespace

TEST_CASE("descendants: parses a stat line with an unusual command name") {
  const auto parsed = parse_stat("17 (a (b) c\n) D 3 15 15 0 -1 4194560");
  REQUIRE(parsed);
  CHECK(*parsed ==
        ProcessRow{.pid = 17, .parent = 3, .group = 15, .state = 'D', .command = "a (b) c\n"});
  const auto used = parse_stat(
      "17 (a) S 3 15 15 0 -1 4194560 1 2 3 4 250 50 6 7 20 0 9 0 1234 40960 321 "
      "18446744073709551615");
  REQUIRE(used);
  CHECK(used->cpu_ticks == 300);
  CHECK(used->resident_pages == 321);
  CHECK_FALSE(parse_stat(""));
  CHECK_FALSE(parse_stat("17 (x) S"));
  CHECK_FALSE(parse_stat(") 17 ("));
}

TEST_CASE("tree use: the use of a process includes that of its descendants") {
  const auto row = [](pid_t pid, pid_t parent, std::uint64_t ticks, std::uint64_t pages) {
    return ProcessRow{
        .pid = pid, .parent = parent, .command = "x", .cpu_ticks = ticks, .resident_pages = pages};
  };
  const std::vector<ProcessRow> rows{row(10, 1, 100, 1),
                                     row(20, 1, 1, 1),
                                     row(30, 1, 7, 7),
                                     row(11, 10, 50, 2),
                                     row(12, 11, 50, 4)};
  const std::vector<pid_t> roots{10, 20, 99};
  const auto use = sum_use(roots, rows);
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  REQUIRE(use.size() == 2);
  CHECK(use.at(10).cpu_seconds == 200 / ticks);
  CHECK(use.at(10).memory == 7 * page);
  CHECK(use.at(20).memory == page);
}

TEST_CASE("gpu use: the use of a process includes that of its descendants") {
  const auto row = [](pid_t pid, pid_t parent) {
    return ProcessRow{.pid = pid, .parent = parent, .command = "x"};
  };
  const std::vector<ProcessRow> rows{row(10, 1), row(20, 1), row(30, 1), row(11, 10)};
  const std::vector<pid_t> roots{10, 20, 30};
  constexpr std::uint64_t kMi = 1 << 20;
  const std::string gpus = "GPU-a, 80\nGPU-b, 15\nGPU-c, [N/A]\n";
  const auto use = sum_gpu_use(
      gpus + "10, GPU-a, 100\n11, GPU-a, 28\n11, GPU-b, 1\n20, GPU-c, [N/A]\n99, GPU-b, 7\n",
      roots,
      rows);
  REQUIRE(use.size() == 2);
  CHECK(use.at(10).busy == 0.8 + 0.15);
  CHECK(use.at(10).memory == 129 * kMi);
  CHECK(use.at(20) == GpuUse{});
  CHECK(sum_gpu_use("", roots, rows).empty());
  CHECK(sum_gpu_use("No devices were found\n,\n,,\n-1, -2, -3", roots, rows).empty());
}

TEST_CASE("descendants: lists the process tree, parents first, without other processes") {
  const std::vector<ProcessRow> rows = {row(5, 4), row(2, 1), row(4, 2), row(3, 2), row(9, 7)};
  CHECK(pids_below(2, rows) == std::vector<pid_t>{4, 3, 5});
  CHECK(pids_below(6, rows).empty());
}

TEST_CASE("descendants: a cycle of parents terminates") {
  const std::vector<ProcessRow> rows = {row(2, 3), row(3, 2)};
  CHECK(pids_below(2, rows) == std::vector<pid_t>{3});
}

TEST_CASE("descendants: lists real children and grandchildren") {
  JobProbe worker({.argv = {kPuppet, "fork-setsid", "{", "say", "below", "wait", "}", "wait"}});
  REQUIRE(worker.says("below"));
  const auto rows = descendants();
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].pid == worker.pid());
  CHECK(rows[1].parent == worker.pid());
  CHECK(children_of(worker.pid()) == std::vector<pid_t>{rows[1].pid});
  ::kill(rows[1].pid, SIGKILL);
}

TEST_CASE("descendants: kills only if the check before each kill permits it") {
  JobProbe worker({.argv = {kPuppet, "fork-setsid", "{", "say", "below", "wait", "}", "wait"}});
  REQUIRE(worker.says("below"));
  const auto kept = kill_all_below(worker.pid(), std::chrono::seconds(10), [] { return false; });
  CHECK(kept.count == 0);
  CHECK(kept.left.empty());
  CHECK(children_of(worker.pid()).size() == 1);
  CHECK(kill_all_below(worker.pid(), std::chrono::seconds(10), [] { return true; }).count == 1);
}

TEST_CASE("descendants: signals that a process ignores or blocks") {
  JobProbe worker({.argv = {kPuppet, "ignore", "TERM", "say", "up", "wait"}});
  REQUIRE(worker.says("up"));
  CHECK(signal_masks(worker.pid(), SIGTERM).ignored);
  CHECK_FALSE(signal_masks(worker.pid(), SIGTERM).blocked);
  CHECK_FALSE(signal_masks(worker.pid(), SIGUSR2).ignored);
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR2);
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &blocked, &before);
  CHECK(signal_masks(::getpid(), SIGUSR2).blocked);
  CHECK_FALSE(signal_masks(::getpid(), SIGUSR2).ignored);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
}

TEST_CASE("descendants: zombies are not survivors") {
  auto zombie = row(2, 1);
  zombie.state = 'Z';
  auto stuck = row(3, 1);
  stuck.state = 'D';
  const auto left = survivors_among({zombie, stuck});
  REQUIRE(left.size() == 1);
  CHECK(left[0].pid == 3);
  CHECK(left[0].state == 'D');
  CHECK(survivors_among({zombie, stuck}, 1).size() == 2);
}

TEST_CASE("descendants: names leftovers and truncates long lists") {
  CHECK(describe_leftovers({{7, "rsync", 0}}) ==
        "1 process that a worker left running: 7 (rsync, rank 0)");
  std::vector<Leftover> many;
  for (int i = 0; i < 10; ++i) {
    many.push_back({10 + i, "sh", std::nullopt});
  }
  const std::string text = describe_leftovers(many);
  CHECK(text.starts_with("10 processes that workers left running: 10 (sh), 11 (sh), "));
  CHECK(text.ends_with(" and 2 more"));
}

TEST_CASE("descendants: names a process that cannot be reaped at the deadline") {
  ::signal(SIGCHLD, SIG_DFL);
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  ::pthread_sigmask(SIG_BLOCK, &child, nullptr);
  JobProbe held({.argv = {kPuppet, "say", "up", "wait"}});
  REQUIRE(held.says("up"));
  // The tracer takes over the right to reap, but does not reap.
  auto seized = *make_pipe();
  const pid_t tracer = ::fork();
  if (tracer == 0) {
    const char answer = ::ptrace(PTRACE_SEIZE, held.pid(), nullptr, nullptr) == 0 ? 'y' : 'n';
    [[maybe_unused]] const auto told = ::write(seized.write.get(), &answer, 1);
    ::pause();
    std::_Exit(0);
  }
  char answer = '?';
  REQUIRE(::read(seized.read.get(), &answer, 1) == 1);
  if (answer == 'y') {
    const auto left =
        kill_descendants_until_none({tracer}, std::chrono::milliseconds(100)).survivors;
    REQUIRE(left.size() == 1);
    CHECK(left[0].pid == held.pid());
  } else {
    WARN("skipped: ptrace is not permitted");
  }
  ::kill(tracer, SIGKILL);
  ::waitpid(tracer, nullptr, 0);
}
