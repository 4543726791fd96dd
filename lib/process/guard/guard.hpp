// SPDX-License-Identifier: Apache-2.0
// The guard: muster runs as two processes so that nothing outlives the job, whichever of them is
// killed. The user starts the guard (it has the user's pid, exit code and signals). The agent is
// its only child and does all the work. Both are child subreapers, so every descendant ends up
// under one of them. If the agent dies, the guard kills all descendants; if the guard dies, the
// agent reads EOF from the link and does the same.
#pragma once

#include "base/fd.hpp"
#include "process/guard/lease_timer.hpp"

#include <functional>
#include <vector>

#include <sys/types.h>

namespace muster {

// One signal that the guard received and forwarded unchanged over the link. SIGTSTP (Ctrl-Z) and
// SIGCONT use the link too: the agent sends SIGSTOP or SIGCONT to the workers' groups.
struct SignalNotice {
  int signo = 0;
  int code = 0;  // si_code; SI_KERNEL for terminal keys
  pid_t sender_pid = 0;
  uid_t sender_uid = 0;
};

// Forks. The parent relays signals, waits for the agent, kills the remaining processes and returns
// the exit code. The child calls `agent` with the read end of the link and returns its result. In
// both processes the caller returns that value from main. `more_signals` are relayed in addition to
// TERM, INT, HUP, QUIT, USR1 and USR2; signals that were ignored at startup are not relayed. When
// `lease` expires, all descendants of the agent are killed, but not the agent. If the agent is
// killed, the remaining processes get a moment to exit, then SIGTERM, then `grace`. Another signal
// or the lease cuts that short.
//
// The guard closes none of the caller's descriptors. A listening socket created earlier thus stays
// open in both processes: connections are not refused before the guard has swept and exited.
[[nodiscard]] int run_guarded(const std::function<int(UniqueFd link)>& agent,
                              const std::vector<int>& more_signals = {},
                              const LeaseTimer* lease = nullptr,
                              Duration grace = Duration::zero());

// Overwrites the command line that ps shows for this process, so that `pkill -9 -f train.py` does
// not kill guard, workers and agent at once. Called in the agent after argv has been copied.
void hide_command_line(int argc, char** argv);

}  // namespace muster
