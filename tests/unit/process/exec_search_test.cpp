// SPDX-License-Identifier: Apache-2.0
#include "process/start/exec_search.hpp"

#include "process/run/worker_table.hpp"
#include "support/catch.hpp"

using namespace muster;

TEST_CASE("exec search: a name with a slash is not searched for") {
  CHECK(program_paths("./train", {"PATH=/a"}) == std::vector<std::string>{"./train"});
}

TEST_CASE(
    "exec search: searches the worker's PATH in order; an empty entry is the current folder") {
  CHECK(program_paths("x", {"A=1", "PATH=/a::/b"}) ==
        std::vector<std::string>{"/a/x", "x", "/b/x"});
  CHECK(program_paths("x", {"XPATH=/a"}) == std::vector<std::string>{"/bin/x", "/usr/bin/x"});
}

TEST_CASE("worker table: reports once that all groups are empty, after the last worker and group") {
  WorkerTable table;
  CHECK_FALSE(table.take_groups_empty());
  table.add(10, 0);
  table.add(11, 1);
  CHECK_FALSE(table.take(12));
  CHECK(table.take(10)->local_rank == 0);
  CHECK_FALSE(table.take_groups_empty());
  table.mark_all_killed();
  CHECK(table.take(11)->killed_by_us);
  table.leaderless().emplace(11, LiveWorker{});
  CHECK_FALSE(table.take_groups_empty());
  table.leaderless().clear();
  CHECK(table.take_groups_empty());
  CHECK_FALSE(table.take_groups_empty());
  table.add(13, 0);
  CHECK(table.live() == std::vector<pid_t>{13});
  CHECK(table.killed_groups().empty());
  CHECK(table.take(13));
  CHECK(table.take_groups_empty());
}

TEST_CASE("worker table: groups of workers that exit or have exited can be signalled later") {
  WorkerTable table;
  for (const pid_t pid : {10, 11, 12, 13}) {
    table.add(pid, pid);
  }
  table.leaderless().emplace(10, *table.take(10));
  CHECK(table.mark_ending(11));
  CHECK(table.groups(GroupsOf::all_workers) == std::vector<pid_t>{11, 12, 13, 10});
  CHECK(table.groups(GroupsOf::running_workers) == std::vector<pid_t>{12, 13});
  for (const pid_t pid : {11, 12}) {
    table.leaderless().emplace(pid, *table.take(pid));
  }
  CHECK(table.groups(GroupsOf::skipped_workers) == std::vector<pid_t>{10, 11});
  CHECK(table.groups(GroupsOf::all_workers) == std::vector<pid_t>{13, 10, 11, 12});
}

TEST_CASE("worker table: does not wait for groups of killed workers") {
  WorkerTable table;
  table.add(10, 0);
  table.add(11, 1);
  table.mark_killed(10);
  CHECK(table.killed_groups() == std::set<pid_t>{10});
  for (const pid_t pid : {10, 11}) {
    table.leaderless().emplace(pid, *table.take(pid));
  }
  CHECK(table.killed_groups() == std::set<pid_t>{10});
  CHECK_FALSE(table.take_groups_empty());
  table.mark_all_killed();
  CHECK(table.killed_groups() == std::set<pid_t>{10, 11});
  CHECK(table.take_groups_empty());
}
