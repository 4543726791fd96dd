// SPDX-License-Identifier: Apache-2.0
// Lists all descendants of a process and kills them until none is left. Needs neither cgroups nor
// privileges: the descendants of a child subreaper cannot escape it, whatever session they create,
// so "no child left" proves "nothing left". Used by the guard (blocking) and LinuxRunner
// (event-driven). Without a /proc of our own pid namespace only our children can be listed. Their
// descendants become our children when their parents are killed, so a sweep still leaves nothing
// behind.
#pragma once

#include "base/fd.hpp"
#include "base/time.hpp"
#include "process/values/process_runner.hpp"

#include <functional>
#include <optional>
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

// The rows that descend from `root`, parents before their children. Pure.
[[nodiscard]] std::vector<ProcessRow> rows_below(pid_t root, std::span<const ProcessRow> rows);

// True if /proc belongs to our own pid namespace. Otherwise (unshare --pid without --mount-proc)
// its pids mean other processes, and we do not read it.
[[nodiscard]] bool proc_is_ours();

[[nodiscard]] std::optional<ProcessRow> read_process(pid_t pid);

// The children of a process, from the kernel's own list or else from a walk through /proc.
[[nodiscard]] std::vector<pid_t> children_of(pid_t pid);

// All current descendants of a process, or of this one. Empty if /proc does not show the process.
[[nodiscard]] std::vector<ProcessRow> descendants(pid_t root);
[[nodiscard]] std::vector<ProcessRow> descendants();

// A handle that stays valid for this process even if its pid is reused; empty before Linux 5.3.
[[nodiscard]] UniqueFd open_process(pid_t pid);

// Sends through the handle, or by pid if the handle is empty.
void send_signal(const UniqueFd& handle, pid_t pid, int signo);

// How a process treats a signal. Both are false if /proc does not show it.
struct SignalMasks {
  bool ignored = false;
  bool blocked = false;  // it may still read the signal: signalfd(2), sigwait(3)
};

[[nodiscard]] SignalMasks signal_masks(pid_t pid, int signo);

// RANK in the environment that the process was started with: the rank of the worker that left it
// behind.
[[nodiscard]] std::optional<int> rank_in_environment(pid_t pid);

struct KilledBelow {
  std::size_t count = 0;       // number of processes killed
  std::vector<Survivor> left;  // still running when `timeout` expired
};

// Kills all descendants of `root`, which is our child but may be stopped and thus reap nothing, so
// its descendants remain as zombies. Blocks for at most `timeout`. `may_kill` is called between
// listing and killing; once it returns false, nothing more is killed.
[[nodiscard]] KilledBelow kill_all_below(
    pid_t root, Duration timeout, const std::function<bool()>& may_kill = [] { return true; });

// The rows that still run or cannot die. Zombies are dead and only wait for their parents. A zombie
// child of `reaper`, which has tried to reap it, counts because a debugger holds it.
[[nodiscard]] std::vector<Survivor> survivors_among(const std::vector<ProcessRow>& rows,
                                                    pid_t reaper = 0);

// A subreaper without children has no descendants.
[[nodiscard]] bool has_children();

}  // namespace muster
