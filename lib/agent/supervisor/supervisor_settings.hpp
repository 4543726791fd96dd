// SPDX-License-Identifier: Apache-2.0
// What a SupervisorCore is told at its start, and the times that it keeps. Value type.
#pragma once

#include "base/time.hpp"

#include <optional>
#include <set>

namespace muster {

// After SIGKILL a process is gone within milliseconds, unless the kernel cannot let go of it. We
// promise to end within 5 s then, and the guard looks once more after us.
inline constexpr Duration kKillTimeout = std::chrono::seconds(2);

// Nobody waits for an end before a restart, and the memory of a large process takes its time: it is
// also what a worker gets that is known to be dying.
inline constexpr Duration kKillTimeoutBeforeRestart = std::chrono::seconds(30);

// The least time between SIGTERM and SIGKILL for what workers left behind, where the workers have
// used up the grace and there is one.
inline constexpr Duration kLeftoverGraceMin = std::chrono::milliseconds(500);

// What helpers of killed workers have to clean up and exit where there is no time to lose.
inline constexpr Duration kSelfExitTimeInHurry = std::chrono::milliseconds(250);

// `timeout` and others send the same signal to a process and to its group: one request, not two.
inline constexpr Duration kSameRequestTime = std::chrono::milliseconds(250);

// How long we wait for a slow console in all: before a restart, at the end, and when we are in a
// hurry. A finished job ends within 2 s whatever its console does.
inline constexpr Duration kConsoleTimeoutBetween = std::chrono::milliseconds(250);
inline constexpr Duration kConsoleTimeoutAtEnd = std::chrono::seconds(1);
inline constexpr Duration kConsoleTimeoutInterrupted = std::chrono::milliseconds(500);

// A worker that closes its connections while it ends (`finally`) is often seen to end after its
// peers, who lost them. So after a lost connection the others are not stopped at once: for so long
// a failure of another kind may still be seen, and it is the cause then. It may be a failure on
// another node: so this holds also where no worker of this one is left.
inline constexpr Duration kDeathNewsTime = std::chrono::seconds(2);

// A scheduler that signals every process of a step reaches them one by one, and one machine after
// the other: so far apart a worker and we, or two nodes, may get the same signal.
inline constexpr Duration kSignalSpread = std::chrono::seconds(1);

// So long the source of rounds may take to let a node go that was asked to end.
inline constexpr Duration kLeaveTimeout = std::chrono::seconds(1);

struct SupervisorSettings {
  int max_restarts = 0;  // for the report
  Duration grace = std::chrono::seconds(30);
  std::set<int> signals_to_forward;  // others that would end a program kill the workers at once
  // A scheduler may send signals to the workers too, and sends SIGTERM more than once.
  bool signals_reach_all = false;
  // When the scheduler ends the job; workers that it asked to end have until then, and the grace.
  std::optional<TimePoint> job_ends;
  Duration console_timeout_between = kConsoleTimeoutBetween;
};

}  // namespace muster
