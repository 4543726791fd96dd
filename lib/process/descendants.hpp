// SPDX-License-Identifier: Apache-2.0
// All processes below one: listed, and killed until none is left. Works without cgroups and
// privileges: a child subreaper's descendants cannot leave it, whatever session they make, so
// "no child left" proves "nothing left". Used by the guard (blocking) and LinuxRunner (by events).
// Without a /proc of our own pid namespace only our children can be listed; those below them become
// our children when their parents were killed, so a sweep still ends with nothing left.
#pragma once

#include "base/time.hpp"
#include "process/process_runner.hpp"

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace muster {

// ProcessRow::command of the agent, the launcher's child.
inline constexpr const char* kAgentName = "job-agent";

struct ProcessRow {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  char state = '?';
  std::string command;
  bool operator==(const ProcessRow&) const = default;
};

// One line of /proc/<pid>/stat; the command may hold blanks and parentheses. Pure.
[[nodiscard]] std::optional<ProcessRow> parse_stat(std::string_view text);

// Those rows that are below `root`, parents before their children. Pure.
[[nodiscard]] std::vector<ProcessRow> rows_below(pid_t root, std::span<const ProcessRow> rows);

// Whether /proc shows the pid namespace that we live in. Where it is another one's (unshare --pid
// without --mount-proc), its numbers mean other processes, and it is not looked at.
[[nodiscard]] bool proc_is_ours();

[[nodiscard]] std::optional<ProcessRow> read_process(pid_t pid);

// The children of one process, by the kernel's own list or else a walk through /proc.
[[nodiscard]] std::vector<pid_t> children_of(pid_t pid);

// Everything below a process, as it is now, or below this one. Of none that /proc does not show.
[[nodiscard]] std::vector<ProcessRow> descendants(pid_t root);
[[nodiscard]] std::vector<ProcessRow> descendants();

// Kills what is below this process. Children cannot be mistaken: they stay until we reap them.
// Those further down are identified by a pidfd and their parent before they are signalled.
class Sweeper {
 public:
  // The subtrees of the children in `spared` are left alone.
  explicit Sweeper(std::set<pid_t> spared = {}) : spared_(std::move(spared)) {}

  // SIGKILL to each child that did not get it yet, and to all below it. To be repeated whenever
  // children were reaped: orphans of the killed have become our children then.
  void sweep();

  void reaped(pid_t pid) {
    killed_.erase(pid);
    spared_.erase(pid);
  }

  // The subtree of this child is left alone from now on.
  void spare(pid_t pid) { spared_.insert(pid); }

  // Whether a child that is not spared may be left.
  [[nodiscard]] bool any_left() const;

 private:
  std::set<pid_t> spared_;
  std::set<pid_t> killed_;
};

struct SweepResult {
  bool none_left = false;           // the kernel says that we have no child but the spared
  std::vector<Survivor> survivors;  // what is known of those that are left
};

// Sweeps and reaps until nothing is left but the spared, or until the timeout. Blocks; SIGCHLD must
// be blocked.
[[nodiscard]] SweepResult kill_descendants_until_none(const std::set<pid_t>& spared,
                                                      Duration timeout);

struct KilledBelow {
  std::size_t count = 0;       // processes that were killed
  std::vector<Survivor> left;  // still there when `timeout` was over
};

// Kills all that is below `root`, which is ours but may be stopped and so reap nothing: what is
// below it is left as zombies. Blocks for at most `timeout`. Between listing and killing
// `may_kill` is asked: after its no, what was listed and whatever comes later is left alone.
[[nodiscard]] KilledBelow kill_all_below(
    pid_t root, Duration timeout, const std::function<bool()>& may_kill = [] { return true; });

// The rows that still run or cannot die. Zombies have died, and wait for their parents only; but
// one of `reaper`, which tried, cannot be reaped (a debugger holds it) and counts.
[[nodiscard]] std::vector<Survivor> survivors_among(const std::vector<ProcessRow>& rows,
                                                    pid_t reaper = 0);

// A subreaper without children has no descendants either.
[[nodiscard]] bool has_children();

}  // namespace muster
