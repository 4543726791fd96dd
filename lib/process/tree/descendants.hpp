// SPDX-License-Identifier: Apache-2.0
// Lists all descendants of a process, and kills them until none remains. Needs neither cgroups nor
// privileges: descendants of a child subreaper cannot escape it by creating a session, so a
// subreaper without children has no descendants. Used by the guard (blocking) and LinuxRunner
// (event-driven). Without a /proc of our own pid namespace, only our children can be listed. Their
// descendants become our children when their parents are killed, so a sweep still kills all of
// them.
#pragma once

#include "base/fd.hpp"
#include "base/time.hpp"
#include "process/values/process_runner.hpp"

#include <cstdint>
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
  std::uint64_t cpu_ticks = 0;  // user and system time; 0 if unknown
  std::uint64_t resident_pages = 0;
  bool operator==(const ProcessRow&) const = default;
};

// Parses /proc/<pid>/stat, which is one line; the command may contain blanks and parentheses. Pure.
[[nodiscard]] std::optional<ProcessRow> parse_stat(std::string_view text);

// The rows that descend from `root`, parents before their children. Pure.
[[nodiscard]] std::vector<ProcessRow> rows_below(pid_t root, std::span<const ProcessRow> rows);

// True if /proc belongs to our own pid namespace. Otherwise (unshare --pid without --mount-proc)
// its pids refer to other processes, and muster does not read it.
[[nodiscard]] bool proc_is_ours();

[[nodiscard]] std::optional<ProcessRow> read_process(pid_t pid);

// The children of a process, from the kernel's own list or else from a scan of /proc.
[[nodiscard]] std::vector<pid_t> children_of(pid_t pid);

// All current descendants of `root`. Empty if /proc does not show that process.
[[nodiscard]] std::vector<ProcessRow> descendants(pid_t root);
[[nodiscard]] std::vector<ProcessRow> descendants();

struct Ancestor {
  pid_t pid = 0;
  int distance = 0;  // 0: the process itself
};

// The process itself or its nearest ancestor for which `is_wanted` is true.
[[nodiscard]] std::optional<Ancestor> nearest_ancestor(pid_t pid,
                                                       const std::function<bool(pid_t)>& is_wanted);

// A handle that still refers to this process if its pid is reused; empty before Linux 5.3.
[[nodiscard]] UniqueFd open_process(pid_t pid);

// Signals the process through the handle, or by pid if the handle is empty.
void send_signal(const UniqueFd& handle, pid_t pid, int signo);

// How a process handles a signal. Both fields are false if /proc does not show the process.
struct SignalMasks {
  bool ignored = false;
  bool blocked = false;  // it may still read the signal with signalfd(2) or sigwait(3)
};

[[nodiscard]] SignalMasks signal_masks(pid_t pid, int signo);

// RANK from the environment with which the process was started: the rank of the worker that left it
// running.
[[nodiscard]] std::optional<int> rank_in_environment(pid_t pid);

struct KilledBelow {
  std::size_t count = 0;       // number of processes killed
  std::vector<Survivor> left;  // still running when `timeout` expired
};

// Kills all descendants of `root`, which is our child. `root` may be stopped and then reaps
// nothing, so its killed descendants remain as zombies. Blocks for at most `timeout`. `may_kill` is
// called between listing and killing. Once it returns false, no more processes are killed.
[[nodiscard]] KilledBelow kill_all_below(
    pid_t root, Duration timeout, const std::function<bool()>& may_kill = [] { return true; });

// The rows of processes that are still running or cannot be killed. Zombies do not count, because
// they are dead and only wait to be reaped. A zombie child of `reaper` counts, because `reaper` has
// tried to reap it and a debugger prevents that.
[[nodiscard]] std::vector<Survivor> survivors_among(const std::vector<ProcessRow>& rows,
                                                    pid_t reaper = 0);

// A subreaper without children has no descendants.
[[nodiscard]] bool has_children();

}  // namespace muster
