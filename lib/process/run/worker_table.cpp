// SPDX-License-Identifier: Apache-2.0
#include "process/run/worker_table.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <utility>

namespace muster {

void WorkerTable::add(pid_t pid, int local_rank) {
  MUSTER_CHECK(pid > 1);  // we signal -pid, and -1 would signal every process on the host
  MUSTER_CHECK(local_rank >= 0);
  MUSTER_CHECK(!live_.contains(pid));
  live_[pid] = LiveWorker{.local_rank = local_rank};
  armed_ = true;
}

const LiveWorker* WorkerTable::find(pid_t pid) const {
  const auto found = live_.find(pid);
  return found == live_.end() ? nullptr : &found->second;
}

std::optional<LiveWorker> WorkerTable::take(pid_t pid) {
  const auto found = live_.find(pid);
  if (found == live_.end()) {
    return std::nullopt;
  }
  const LiveWorker worker = found->second;
  live_.erase(found);
  return worker;
}

void WorkerTable::mark_killed(pid_t pid) {
  if (const auto found = live_.find(pid); found != live_.end()) {
    found->second.killed_by_us = true;
  }
}

bool WorkerTable::mark_ending(pid_t pid) {
  const auto found = live_.find(pid);
  return found != live_.end() && !std::exchange(found->second.seen_ending, true);
}

void WorkerTable::mark_all_killed() {
  for (auto& [pid, worker] : live_) {
    worker.killed_by_us = true;
  }
  for (auto& [group, worker] : leaderless_) {
    worker.killed_by_us = true;
  }
}

void WorkerTable::mark_rank_killed(int local_rank) {
  for (auto* const workers : {&live_, &leaderless_}) {
    for (auto& [pid, worker] : *workers) {
      worker.killed_by_us = worker.killed_by_us || worker.local_rank == local_rank;
    }
  }
}

std::vector<pid_t> WorkerTable::live() const {
  std::vector<pid_t> pids;
  pids.reserve(live_.size());
  for (const auto& [pid, worker] : live_) {
    pids.push_back(pid);
  }
  return pids;
}

std::vector<pid_t> WorkerTable::groups(GroupsOf which) {
  std::vector<pid_t> pids;
  for (auto* const workers : {&live_, &leaderless_}) {
    for (auto& [pid, worker] : *workers) {
      if (which == GroupsOf::running_workers) {
        worker.signalled = workers == &live_ && !worker.seen_ending;
      }
      if (which == GroupsOf::all_workers ||
          worker.signalled == (which == GroupsOf::running_workers)) {
        pids.push_back(pid);
      }
    }
  }
  return pids;
}

std::set<pid_t> WorkerTable::killed_groups() const {
  std::set<pid_t> groups;
  for (const auto* const workers : {&live_, &leaderless_}) {
    for (const auto& [pid, worker] : *workers) {
      if (worker.killed_by_us) {
        groups.insert(pid);
      }
    }
  }
  return groups;
}

bool WorkerTable::take_groups_empty() {
  MUSTER_CHECK(armed_ || live_.empty());
  const bool none_left =
      std::ranges::all_of(leaderless_, [](const auto& group) { return group.second.killed_by_us; });
  return live_.empty() && none_left && std::exchange(armed_, false);
}

}  // namespace muster
