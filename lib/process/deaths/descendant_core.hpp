// SPDX-License-Identifier: Apache-2.0
// DescendantCore: which processes are below which worker, and whether the end of one of them is a
// failure. Fed by DescendantWatch with what the kernel lists; time is an argument, no I/O. Value.
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

// Each takes a descriptor, and a quarter of ours at most. Whatever is beyond is not watched.
inline constexpr std::size_t kDescendantsMax = 1024;

// A process that has run for so long is part of the program, not one of its short commands.
inline constexpr Duration kDescendantSettled = std::chrono::seconds(10);

struct Descendant {
  int local_rank = 0;  // of the worker above it
  std::string command;
  TimePoint since{};
};

// The end of a process below a worker.
struct DescendantEnd {
  pid_t pid = 0;
  int local_rank = 0;
  std::string command;
  ExitStatus status;
  bool out_of_memory = false;
  std::string memory_usage;
};

// Whether it failed: killed by SIGKILL or by a signal of a crash (SIGSEGV, SIGABRT, ...) at any
// age; or ended with a code of its own other than 0 after it had settled, since programs run short
// commands that fail every day. Signals and codes of those who were asked to end do not count. No
// status: its parent took it before we could look, and so knows of it.
[[nodiscard]] bool is_failure(const std::optional<ExitStatus>& status, Duration age);

class DescendantCore {
 public:
  // The local rank of the worker that started a process whose parent has ended; none: no worker.
  using OwnerOfOrphan = std::function<std::optional<int>(const ProcessRow&)>;

  // `reaper`: whose children orphans become; `most`: how many are watched.
  DescendantCore(pid_t reaper, std::size_t most) : reaper_(reaper), most_(most) {}

  void add_worker(pid_t pid, int local_rank) { workers_[pid] = local_rank; }

  // The worker has ended, or is being ended, and what is below it with it.
  void drop_worker(int local_rank);

  // Parents come before their children. Returns who is new, to be watched.
  [[nodiscard]] std::vector<pid_t> note_seen(TimePoint now,
                                             std::span<const ProcessRow> rows,
                                             const OwnerOfOrphan& owner);

  // Its end, where that is a failure. It is forgotten.
  [[nodiscard]] std::optional<DescendantEnd> note_end(TimePoint now,
                                                      pid_t pid,
                                                      const std::optional<ExitStatus>& status);

  // The worker with this local rank; 0: none.
  [[nodiscard]] pid_t worker(int local_rank) const;

  [[nodiscard]] bool knows(pid_t pid) const {
    return workers_.contains(pid) || descendants_.contains(pid);
  }

  // Of one that died before it was seen, as its parent did: the worker that leads its group. Else
  // the one with the least local rank, while all run: once one has ended, it may have been its.
  [[nodiscard]] std::optional<int> owner_of_dead(pid_t group) const;

  // Some were left out.
  [[nodiscard]] bool was_full() const { return was_full_; }

 private:
  [[nodiscard]] std::optional<int> owner_of(const ProcessRow& row,
                                            const OwnerOfOrphan& owner) const;

  pid_t reaper_;
  std::size_t most_;
  std::map<pid_t, int> workers_;  // to their local ranks
  std::map<pid_t, Descendant> descendants_;
  bool was_full_ = false;
  bool some_ended_ = false;  // of the workers
};

}  // namespace muster
