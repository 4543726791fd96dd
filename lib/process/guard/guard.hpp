// SPDX-License-Identifier: Apache-2.0
// The guard: muster runs as two processes, so that no process outlives the job even if one of the
// two is killed. The user starts the guard, which has the pid that the user sees, receives the
// signals and returns the exit code. The agent is its only child and does all the work. Both are
// child subreapers, so every descendant is reparented to one of them. If the agent dies, the guard
// kills all descendants. If the guard dies, the agent reads EOF from the link and does the same.
#pragma once

#include "base/fd.hpp"
#include "process/guard/lease_timer.hpp"

#include <functional>
#include <vector>

#include <sys/types.h>

namespace muster {

// A signal that the guard received and forwarded unchanged over the link. SIGTSTP (Ctrl-Z) and
// SIGCONT use the link too: the agent then sends SIGSTOP or SIGCONT to the workers' groups.
struct SignalNotice {
  int signo = 0;
  int code = 0;  // si_code; SI_KERNEL for signals from terminal keys
  pid_t sender_pid = 0;
  uid_t sender_uid = 0;
};

// The agent's ends of its pipes to the guard.
struct GuardLink {
  UniqueFd signals;   // from the guard: a SignalNotice for each signal; EOF when the guard dies
  UniqueFd outlives;  // to the guard: the pids, as pid_t, of processes that may outlive the job
};

// Forks. The parent relays signals, waits for the agent, kills the remaining processes and returns
// the exit code. The child calls `agent` with its link and returns its result. In both processes,
// the caller must return the result of run_guarded from main. `more_signals` are relayed in
// addition to TERM, INT, HUP, QUIT, USR1 and USR2. Signals that were ignored at startup are not
// relayed. When `lease` expires, all descendants of the agent are killed, but not the agent
// itself. If the agent is killed, the remaining processes get a moment to exit on their own, then
// SIGTERM, and SIGKILL after `grace`. A second signal or an expired lease shortens these waits. The
// guard closes none of the caller's descriptors. A listening socket created earlier thus stays open
// in both processes, and connections are not refused until the guard has finished the sweep and
// exited.
[[nodiscard]] int run_guarded(const std::function<int(GuardLink link)>& agent,
                              const std::vector<int>& more_signals = {},
                              const LeaseTimer* lease = nullptr,
                              Duration grace = Duration::zero());

// Overwrites the command line that ps shows for this process, so that `pkill -9 -f train.py` does
// not kill the guard, the workers and the agent at once. Called in the agent after argv has been
// copied.
void hide_command_line(int argc, char** argv);

}  // namespace muster
