// SPDX-License-Identifier: Apache-2.0
// WorkerTable: which workers live, and which process groups still have members after their worker
// was reaped. Pure bookkeeping of LinuxRunner, which asks the kernel and updates the table.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include <sys/types.h>

namespace muster {

struct LiveWorker {
  int local_rank = 0;
  bool killed_by_us = false;
  bool seen_ending = false;  // before it was reaped
};

class WorkerTable {
 public:
  void add(pid_t pid, int local_rank);

  // None where `pid` is no live worker; valid until the table changes.
  [[nodiscard]] const LiveWorker* find(pid_t pid) const;

  // The worker, which is taken out; none where `pid` is a process that we adopted.
  [[nodiscard]] std::optional<LiveWorker> take(pid_t pid);

  void mark_killed(pid_t pid);
  // True the first time.
  [[nodiscard]] bool mark_ending(pid_t pid);
  void mark_all_killed();

  // Workers' pids, which are also their groups' numbers.
  [[nodiscard]] std::vector<pid_t> live() const;

  // The process groups of killed workers, also of those that were reaped.
  [[nodiscard]] std::set<pid_t> killed_groups() const;

  // Groups whose worker was reaped, and whether they were killed: helpers that were spared are no
  // reason to wait for such a group.
  [[nodiscard]] std::map<pid_t, bool>& leaderless() { return leaderless_; }

  // True once after all workers and groups have ended or were killed, and again after each later
  // add.
  [[nodiscard]] bool take_groups_empty();

 private:
  std::map<pid_t, LiveWorker> live_;
  std::map<pid_t, bool> leaderless_;
  bool armed_ = false;
};

}  // namespace muster
