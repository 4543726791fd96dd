// SPDX-License-Identifier: Apache-2.0
// DescendantCore: tracks which processes descend from which worker, and decides whether the exit of
// a descendant is a failure. DescendantWatch passes it the kernel's process list. Time is an
// argument; no I/O. Value.
#pragma once

#include "base/time.hpp"
#include "process/tree/descendants.hpp"
#include "process/values/exit_status.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

namespace muster {

// Each watched process uses a descriptor, and at most a quarter of our descriptors may be used for
// this. Processes beyond the limit are not watched.
inline constexpr std::size_t kDescendantsMax = 1024;

// A process that has run for this long is part of the program, not a short-lived command.
inline constexpr Duration kDescendantSettled = std::chrono::seconds(10);

struct Descendant {
  int local_rank = 0;  // the local rank of its worker
  std::string command;
  TimePoint since{};
};

// The exit of a worker's descendant.
struct DescendantEnd {
  pid_t pid = 0;
  int local_rank = 0;
  std::string command;
  ExitStatus status;
  bool out_of_memory = false;
  std::string memory_usage;
};

// True if the process failed. SIGKILL and crash signals (SIGSEGV, SIGABRT, ...) count at any age. A
// nonzero exit code counts only if the process was older than kDescendantSettled, because programs
// often run short-lived commands that fail. Signals and exit codes that result from a stop request
// do not count. A process without a status does not count either: its parent has reaped it and
// knows about the exit.
[[nodiscard]] bool is_failure(const std::optional<ExitStatus>& status, Duration age);

class DescendantCore {
 public:
  // Finds the worker that an orphaned process descends from, and returns the worker's local rank;
  // none if the process does not descend from a worker.
  using OwnerOfOrphan = std::function<std::optional<int>(const ProcessRow&)>;

  // `reaper`: the process that adopts orphans; `most`: the maximum number of watched processes.
  DescendantCore(pid_t reaper, std::size_t most) : reaper_(reaper), most_(most) {}

  void add_worker(pid_t pid, int local_rank) { workers_[pid] = local_rank; }

  // Call when the worker has exited or is being stopped; its descendants are dropped too.
  void drop_worker(int local_rank);

  // `rows` lists parents before their children. Returns the new processes, which must be watched.
  [[nodiscard]] std::vector<pid_t> note_seen(TimePoint now,
                                             std::span<const ProcessRow> rows,
                                             const OwnerOfOrphan& owner);

  // Removes the process. Returns the process's exit if the exit is a failure.
  [[nodiscard]] std::optional<DescendantEnd> note_end(TimePoint now,
                                                      pid_t pid,
                                                      const std::optional<ExitStatus>& status);

  // The pid of the worker with this local rank; 0 if there is no such worker.
  [[nodiscard]] pid_t worker(int local_rank) const;

  [[nodiscard]] bool knows(pid_t pid) const {
    return workers_.contains(pid) || descendants_.contains(pid);
  }

  // The local rank of the worker that owned an orphan, for an orphan that died before a scan found
  // it. This is the worker that leads the orphan's group, or else the worker with the lowest local
  // rank. None once any worker has exited, because the process may have belonged to that worker.
  [[nodiscard]] std::optional<int> owner_of_dead(pid_t group) const;

  // True if some processes could not be watched.
  [[nodiscard]] bool was_full() const { return was_full_; }

 private:
  [[nodiscard]] std::optional<int> owner_of(const ProcessRow& row,
                                            const OwnerOfOrphan& owner) const;

  pid_t reaper_;
  std::size_t most_;
  std::map<pid_t, int> workers_;  // pid to local rank
  std::map<pid_t, Descendant> descendants_;
  bool was_full_ = false;
  bool some_ended_ = false;  // a worker has exited
};

}  // namespace muster
