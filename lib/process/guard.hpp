// SPDX-License-Identifier: Apache-2.0
// The guard: muster runs as two processes so that nothing outlives the job, whichever of them is
// killed. The guard is the process that the user started (its pid, its exit code, its signals); the
// agent is its only child and does all the work. Both are child subreapers, so every descendant
// ends up below one of them: if the agent dies, the guard kills all descendants; if the guard
// dies, the agent reads end-of-file from the link and does the same.
#pragma once

#include <functional>

#include "base/fd.hpp"

#include <sys/types.h>

namespace muster {

// One signal that the guard received, passed to the agent as it is over the link.
struct SignalNotice {
  int signo = 0;
  pid_t sender_pid = 0;
  uid_t sender_uid = 0;
};

// Blocks the signals that we handle; the first statement of main. Remembers the mask and the
// ignored signals that we were started with, for the workers and for nohup.
void block_signals();

// Forks. In the parent: relays signals, waits for the agent, kills what it left, and returns the
// exit code. In the child: calls `agent` with the read end of the link and returns its result.
// The caller returns that value from main in both processes.
[[nodiscard]] int run_guarded(const std::function<int(UniqueFd link)>& agent);

}  // namespace muster
