// SPDX-License-Identifier: Apache-2.0
// The settings of a SupervisorCore, and its timeouts. Value type.
#pragma once

#include "base/time.hpp"

#include <optional>
#include <set>

namespace muster {

// After SIGKILL a process exits within milliseconds, unless it is stuck in the kernel. We promise
// to exit within 5 s then, and the guard checks once more after us.
inline constexpr Duration kKillTimeout = std::chrono::seconds(2);

// Before a restart no user waits for an exit, and the kernel takes time to free the memory of a
// large process. A worker that is known to be dying gets this time too.
inline constexpr Duration kKillTimeoutBeforeRestart = std::chrono::seconds(30);

// The minimum time between SIGTERM and SIGKILL for leftovers if the workers have used up the grace
// and the grace is not zero.
inline constexpr Duration kLeftoverGraceMin = std::chrono::milliseconds(500);

// How long helpers of killed workers have to clean up and exit if muster is in a hurry.
inline constexpr Duration kSelfExitTimeInHurry = std::chrono::milliseconds(250);

// `timeout` and others send the same signal to a process and to its group: this is one request.
inline constexpr Duration kSameRequestTime = std::chrono::milliseconds(250);

// How long we wait for a slow console in total: before a restart, at the end, and when interrupted.
// A finished job exits within 2 s whatever its console does.
inline constexpr Duration kConsoleTimeoutBetween = std::chrono::milliseconds(250);
inline constexpr Duration kConsoleTimeoutAtEnd = std::chrono::seconds(1);
inline constexpr Duration kConsoleTimeoutInterrupted = std::chrono::milliseconds(500);

// A worker that closes its connections while it exits (`finally`) is often reaped after the peers
// that lost them. Therefore the others are not stopped at once after a lost connection: a failure
// of another kind within this time is the cause. It may be on another node, so the delay also
// applies if no worker is left on this node.
inline constexpr Duration kDeathNewsTime = std::chrono::seconds(2);

// A scheduler that signals every process of a step reaches them one by one, and one host after the
// other. This is the maximum delay between a worker and us, or between two nodes.
inline constexpr Duration kSignalSpread = std::chrono::seconds(1);

// How long the round source may take to release a node that was asked to leave.
inline constexpr Duration kLeaveTimeout = std::chrono::seconds(1);

struct SupervisorSettings {
  int max_restarts = 0;  // for the report
  Duration grace = std::chrono::seconds(30);
  std::set<int> signals_to_forward;  // other fatal signals kill the workers at once
  // A scheduler may signal the workers too, and sends SIGTERM more than once.
  bool signals_reach_all = false;
  // When the scheduler ends the job. Workers that it asked to stop have until then plus the grace.
  std::optional<TimePoint> job_ends;
  Duration console_timeout_between = kConsoleTimeoutBetween;
};

}  // namespace muster
