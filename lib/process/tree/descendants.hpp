// SPDX-License-Identifier: Apache-2.0
// All processes below one: listed, and killed until none is left. Works without cgroups and
// privileges: a child subreaper's descendants cannot leave it, whatever session they make, so
// "no child left" proves "nothing left". Used by the guard (blocking) and LinuxRunner (by events).
// Without a /proc of our own pid namespace only our children can be listed; those below them become
// our children when their parents were killed, so a sweep still ends with nothing left.
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

// A handle on a process that stays its own when the pid is used again; empty before Linux 5.3.
[[nodiscard]] UniqueFd open_process(pid_t pid);

// Through the handle, or by the pid where there is none.
void send_signal(const UniqueFd& handle, pid_t pid, int signo);

// What a process does about a signal. Both are false where /proc does not say.
struct SignalMasks {
  bool ignored = false;
  bool blocked = false;  // it may still read the signal: signalfd(2), sigwait(3)
};

[[nodiscard]] SignalMasks signal_masks(pid_t pid, int signo);

// RANK in the environment that the process was started with: whose worker has left it.
[[nodiscard]] std::optional<int> rank_in_environment(pid_t pid);

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
