// SPDX-License-Identifier: Apache-2.0
#include "process/deaths/descendant_core.hpp"

#include "process/deaths/descendant_watch.hpp"
#include "support/catch.hpp"

#include <csignal>

using namespace muster;
using namespace std::chrono_literals;

namespace {

constexpr pid_t kReaper = 10;
constexpr std::size_t kMost = 50;
constexpr ExitStatus kKilled{true, SIGKILL};

ProcessRow row(pid_t pid, pid_t parent) {
  return {.pid = pid, .parent = parent, .group = 0, .state = 'S', .command = "python3"};
}

// Workers 100 and 200 of local ranks 0 and 1.
struct Tree {
  Tree() {
    core.add_worker(100, 0);
    core.add_worker(200, 1);
  }

  std::vector<pid_t> see(const std::vector<ProcessRow>& rows, std::optional<int> owner = {}) {
    return core.note_seen(now, rows, [owner](const ProcessRow& /*row*/) { return owner; });
  }

  DescendantCore core{kReaper, kMost};
  TimePoint now{1000s};
};

}  // namespace

TEST_CASE("descendants' failures: crash signals and SIGKILL count at any age") {
  for (const int signo : {SIGKILL, SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS}) {
    CHECK(is_failure(ExitStatus{true, signo}, 0s));
  }
  for (const int signo : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGALRM, SIGUSR1}) {
    CHECK_FALSE(is_failure(ExitStatus{true, signo}, 1h));
  }
}

TEST_CASE("descendants' failures: exit codes count once the process has run for a while") {
  CHECK_FALSE(is_failure(ExitStatus{false, 1}, kDescendantSettled - 1ms));
  CHECK(is_failure(ExitStatus{false, 1}, kDescendantSettled));
  CHECK(is_failure(ExitStatus{false, 137}, 1h));
  CHECK_FALSE(is_failure(ExitStatus{false, 0}, 1h));
  CHECK_FALSE(is_failure(ExitStatus{false, 128 + SIGTERM}, 1h));
  CHECK_FALSE(is_failure(ExitStatus{false, 128 + SIGINT}, 1h));
  CHECK_FALSE(is_failure(std::nullopt, 1h));
}

TEST_CASE("descendant core: watches all descendants of a worker once, but no other processes") {
  Tree tree;
  const std::vector<ProcessRow> rows = {
      row(100, kReaper), row(101, 100), row(102, 101), row(201, 200), row(300, 1), row(301, 300)};
  CHECK(tree.see(rows) == std::vector<pid_t>{101, 102, 201});
  CHECK(tree.see(rows).empty());
  CHECK(tree.core.knows(102));
  CHECK_FALSE(tree.core.knows(301));
}

TEST_CASE("descendant core: a failure is attributed to the worker above, and reported once") {
  Tree tree;
  static_cast<void>(tree.see({row(201, 200), row(202, 201)}));
  const auto end = tree.core.note_end(tree.now, 202, kKilled);
  REQUIRE(end);
  CHECK(end->pid == 202);
  CHECK(end->local_rank == 1);
  CHECK(end->command == "python3");
  CHECK(end->status == kKilled);
  CHECK_FALSE(tree.core.note_end(tree.now, 202, kKilled));
  CHECK_FALSE(tree.core.note_end(tree.now, 999, kKilled));
}

TEST_CASE("descendant core: the age counts from the first observation") {
  Tree tree;
  static_cast<void>(tree.see({row(101, 100), row(102, 100)}));
  tree.now += kDescendantSettled - 1ms;
  static_cast<void>(tree.see({row(101, 100), row(102, 100)}));
  CHECK_FALSE(tree.core.note_end(tree.now, 101, ExitStatus{false, 3}));
  tree.now += 1ms;
  CHECK(tree.core.note_end(tree.now, 102, ExitStatus{false, 3}));
}

TEST_CASE("descendant core: an orphan belongs to the worker named in its environment") {
  Tree tree;
  CHECK(tree.see({row(500, kReaper), row(501, 500)}, 1) == std::vector<pid_t>{500, 501});
  CHECK(tree.core.note_end(tree.now, 501, kKilled)->local_rank == 1);
  CHECK(tree.see({row(600, kReaper)}, std::nullopt).empty());  // one of our helpers
  CHECK(tree.see({row(700, kReaper)}, 7).empty());             // belongs to no running worker
}

TEST_CASE("descendant core: a known process stays with its worker when its parent exits") {
  Tree tree;
  static_cast<void>(tree.see({row(101, 100), row(102, 101)}));
  static_cast<void>(tree.core.note_end(tree.now, 101, ExitStatus{false, 0}));
  CHECK(tree.see({row(102, kReaper)}).empty());
  CHECK(tree.core.note_end(tree.now, 102, kKilled)->local_rank == 0);
}

TEST_CASE("descendant core: descendants of a worker that has exited do not count") {
  Tree tree;
  static_cast<void>(tree.see({row(101, 100), row(201, 200)}));
  tree.core.drop_worker(0);
  CHECK_FALSE(tree.core.note_end(tree.now, 101, kKilled));
  CHECK(tree.core.note_end(tree.now, 201, kKilled));
  CHECK(tree.core.worker(0) == 0);
  CHECK(tree.core.worker(1) == 200);
  CHECK(tree.see({row(101, 100)}).empty());
}

TEST_CASE("descendant core: finds the worker of a process that was never seen alive") {
  Tree tree;
  CHECK(tree.core.owner_of_dead(200) == 1);  // it was in that worker's group
  CHECK(tree.core.owner_of_dead(500) == 0);
  tree.core.drop_worker(0);
  CHECK(tree.core.owner_of_dead(200) == 1);
  CHECK_FALSE(tree.core.owner_of_dead(100));  // the one that has exited
  CHECK_FALSE(tree.core.owner_of_dead(500));
}

TEST_CASE("descendant core: limits the number of watched processes") {
  Tree tree;
  std::vector<ProcessRow> rows;
  for (int i = 0; i <= static_cast<int>(kMost); ++i) {
    rows.push_back(row(1000 + i, 100));
  }
  CHECK(tree.see({rows.begin(), rows.end() - 1}).size() == kMost);
  CHECK_FALSE(tree.core.was_full());
  CHECK(tree.see(rows).empty());
  CHECK(tree.core.was_full());
  static_cast<void>(tree.core.note_end(tree.now, 1000, ExitStatus{}));
  CHECK(tree.see(rows).size() == 1);
}

TEST_CASE("rank in an environment: parses whole names and numbers only") {
  using namespace std::string_view_literals;
  CHECK(rank_in_environment("A=1\0RANK=12\0LOCAL_RANK=3\0"sv) == 12);
  CHECK(rank_in_environment("LOCAL_RANK=3\0GROUP_RANK=1\0RANK=0"sv) == 0);
  CHECK_FALSE(rank_in_environment("LOCAL_RANK=3\0"sv));
  CHECK_FALSE(rank_in_environment("RANK=\0"sv));
  CHECK_FALSE(rank_in_environment("RANK=1x\0"sv));
  CHECK_FALSE(rank_in_environment("\0\0\0"sv));
  CHECK_FALSE(rank_in_environment(""));
}
