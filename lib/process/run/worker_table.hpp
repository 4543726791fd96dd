// SPDX-License-Identifier: Apache-2.0
// WorkerTable: tracks live workers, and process groups that still have members after their worker
// was reaped. Pure bookkeeping for LinuxRunner, which queries the kernel and updates the table.
#pragma once

#include "process/values/process_runner.hpp"

#include <map>
#include <optional>
#include <set>
#include <vector>

#include <sys/types.h>

namespace muster {

struct LiveWorker {
  int local_rank = 0;
  bool killed_by_us = false;
  bool signalled = false;    // was in groups(running_workers)
  bool seen_ending = false;  // seen exiting before it was reaped
};

class WorkerTable {
 public:
  void add(pid_t pid, int local_rank);

  // Null if `pid` is not a live worker; valid until the table changes.
  [[nodiscard]] const LiveWorker* find(pid_t pid) const;

  // Removes and returns the worker; none if `pid` is an adopted process.
  [[nodiscard]] std::optional<LiveWorker> take(pid_t pid);

  void mark_killed(pid_t pid);
  // Returns true on the first call for this pid.
  [[nodiscard]] bool mark_ending(pid_t pid);
  void mark_all_killed();
  // Also marks the groups of earlier workers with this local rank.
  void mark_rank_killed(int local_rank);

  // Workers' pids, which are also their process group IDs.
  [[nodiscard]] std::vector<pid_t> live() const;

  // The process groups that a signal reaches. Groups of reaped workers may be empty.
  [[nodiscard]] std::vector<pid_t> groups(GroupsOf which);

  // The process groups of killed workers, including reaped ones.
  [[nodiscard]] std::set<pid_t> killed_groups() const;

  // Groups whose worker was reaped. A killed group may still contain spared helpers, which muster
  // does not wait for.
  [[nodiscard]] std::map<pid_t, LiveWorker>& leaderless() { return leaderless_; }

  // True once after all workers and groups have exited or were killed; can become true again after
  // a later add.
  [[nodiscard]] bool take_groups_empty();

 private:
  std::map<pid_t, LiveWorker> live_;
  std::map<pid_t, LiveWorker> leaderless_;
  bool armed_ = false;
};

}  // namespace muster
