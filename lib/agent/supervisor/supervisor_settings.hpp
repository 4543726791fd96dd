// SPDX-License-Identifier: Apache-2.0
// The settings of a SupervisorCore, and its timeouts. Value type.
#pragma once

#include "base/time.hpp"

#include <csignal>
#include <optional>
#include <set>

namespace muster {

// After SIGKILL a process exits within milliseconds, unless it is stuck in the kernel. In that case
// muster must still exit within 5 s, including the guard's final check after the agent has exited.
inline constexpr Duration kKillTimeout = std::chrono::seconds(2);

// Before a restart no user waits for muster to exit, and the kernel takes time to free the memory
// of a large process. A worker that is known to be dying also has this much time.
inline constexpr Duration kKillTimeoutBeforeRestart = std::chrono::seconds(30);

// The minimum time between SIGTERM and SIGKILL for leftovers, if the workers have used up a
// non-zero grace period.
inline constexpr Duration kLeftoverGraceMin = std::chrono::milliseconds(500);

// The time that helpers of killed workers have to clean up and exit if muster must exit quickly.
inline constexpr Duration kSelfExitTimeInHurry = std::chrono::milliseconds(250);

// `timeout` and similar programs send the same signal to a process and to its group. This counts as
// one request.
inline constexpr Duration kSameRequestTime = std::chrono::milliseconds(250);

// The total time to wait for a slow console: before a restart, at the end, and when interrupted. A
// finished job exits within 2 s even if its console does not accept output.
inline constexpr Duration kConsoleTimeoutBetween = std::chrono::milliseconds(250);
inline constexpr Duration kConsoleTimeoutAtEnd = std::chrono::seconds(1);
inline constexpr Duration kConsoleTimeoutInterrupted = std::chrono::milliseconds(500);

// A worker that closes its connections while it exits (`finally`) is often reaped after the workers
// that lost these connections. After a lost connection, the other workers are therefore not stopped
// immediately. If a worker fails for another reason within this time, that failure is the cause.
// The cause may be on another node, so the delay also applies if this node has no workers left.
inline constexpr Duration kDeathNewsTime = std::chrono::seconds(2);

// A scheduler that sends a signal to every process of a step reaches the processes one by one, and
// one host after the other. This is the maximum delay between a worker and us, or between two
// nodes.
inline constexpr Duration kSignalSpread = std::chrono::seconds(1);

// How long the round source may take to release a node that was asked to leave.
inline constexpr Duration kLeaveTimeout = std::chrono::seconds(1);

// The minimum time that a preempted node waits for the leader to close the job after the node's
// workers have exited. Otherwise the node would leave before it learns that a worker has failed.
inline constexpr Duration kPreemptedCloseTime = std::chrono::seconds(5);

// After the deadline of a preemption of a node, this node waits for that node to leave. That node
// kills its workers first.
inline constexpr Duration kDepartureTime = std::chrono::seconds(15);

// How long a surviving worker's library may take to confirm a loss. A thread confirms it, so a
// worker that does not is stopped or stuck in the kernel, and is killed and replaced. The timeout
// is not shorter, because C code can hold Python's interpreter lock for some seconds.
inline constexpr Duration kHeardTimeout = std::chrono::seconds(5);

// If the timeout is handled later than this after it has expired, the agent itself was stopped.
inline constexpr Duration kTickLateMax = std::chrono::seconds(1);

// How long the workers may take to resume after a worker was replaced. A survivor may first finish
// an evaluation or a checkpoint, so the timeout grows with the longest pause between two of a
// worker's steps, and with the time that the workers took to start. Then all workers are restarted.
inline constexpr Duration kMendTimeoutMin = std::chrono::seconds(30);
inline constexpr Duration kMendTimeoutMax = std::chrono::minutes(30);
inline constexpr int kMendPauses = 3;

struct SupervisorSettings {
  int max_restarts = 0;          // for the report
  bool restart_by_rank = false;  // replace a failed worker, and keep the others running
  Duration grace = std::chrono::seconds(30);
  std::set<int> signals_to_forward;  // other fatal signals kill the workers immediately
  // A scheduler may also send its signals to the workers, and it sends SIGTERM more than once.
  bool signals_reach_all = false;
  // The time at which the scheduler ends the job. Workers that the scheduler asked to stop have
  // until that time, plus the grace period.
  std::optional<TimePoint> job_ends;
  Duration console_timeout_between = kConsoleTimeoutBetween;
};

// True if the signal is only for the workers and never stops a job.
[[nodiscard]] constexpr bool is_passed_on(int signo) {
  return signo == SIGUSR1 || signo == SIGUSR2 || signo == SIGTSTP || signo == SIGCONT;
}

}  // namespace muster
