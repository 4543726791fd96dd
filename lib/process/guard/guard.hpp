// SPDX-License-Identifier: Apache-2.0
// The guard: muster runs as two processes so that nothing outlives the job, whichever of them is
// killed. The guard is the process that the user started (its pid, its exit code, its signals); the
// agent is its only child and does all the work. Both are child subreapers, so every descendant
// ends up below one of them: if the agent dies, the guard kills all descendants; if the guard
// dies, the agent reads end-of-file from the link and does the same.
#pragma once

#include "base/fd.hpp"
#include "process/guard/lease_timer.hpp"

#include <functional>
#include <vector>

#include <sys/types.h>

namespace muster {

// One signal that the guard received, passed to the agent as it is over the link. SIGTSTP (Ctrl-Z)
// and SIGCONT come this way too: the agent sends SIGSTOP or SIGCONT to the workers' groups.
struct SignalNotice {
  int signo = 0;
  int code = 0;  // si_code: SI_KERNEL for the keys of a terminal
  pid_t sender_pid = 0;
  uid_t sender_uid = 0;
};

// Forks. In the parent: relays signals, waits for the agent, kills what it left, and returns the
// exit code. In the child: calls `agent` with the read end of the link and returns its result.
// The caller returns that value from main in both processes. `more_signals` are relayed beside
// TERM, INT, HUP, QUIT, USR1 and USR2; none is relayed that was ignored when we were started.
// When `lease` goes off, everything below the agent is killed, the agent itself is not. If the
// agent is killed, what it leaves may exit by itself for a moment, gets SIGTERM and then `grace`;
// another signal or the lease ends that at once.
//
// The guard closes no descriptor that the caller holds: a listening socket made before stays open
// in both processes, so that nobody is refused there before the guard has swept and ended.
[[nodiscard]] int run_guarded(const std::function<int(UniqueFd link)>& agent,
                              const std::vector<int>& more_signals = {},
                              const LeaseTimer* lease = nullptr,
                              Duration grace = Duration::zero());

// Overwrites the command line that ps shows for this process, so that `pkill -9 -f train.py` does
// not hit guard, workers and agent at once. For the agent, once argv has been copied.
void hide_command_line(int argc, char** argv);

}  // namespace muster
