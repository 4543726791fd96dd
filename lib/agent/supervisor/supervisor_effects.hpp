// SPDX-License-Identifier: Apache-2.0
// The effects of the supervisor core: what its shell does next. Values. Named as imperatives.
#pragma once

#include "agent/failures/job_result.hpp"
#include "agent/supervisor/supervisor_events.hpp"
#include "base/time.hpp"
#include "process/values/process_runner.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace muster {

// The next six effects, AskMend, TellReady and EndMend go to the round source, which documents
// them.
struct AwaitRound {
  int attempt = 0;  // counts the starts of the local workers, from 0
};

// The workers are being stopped for another round.
struct ExpectRound {};

struct TellGone {};

struct ReportSuccess {};

struct ReportFinished {};

// Followed by TellGone, unless RoundClosed arrives first.
struct LeaveRound {
  std::string reason;
  bool is_planned = false;  // the other nodes saved at the same step
};

// The scheduler is stopping the job. `left` is the time that the workers have to exit on their own.
struct TellDrain {
  int signo = 0;
  Duration left{};
  bool until_job_ends = false;  // `left` lasts until the job ends, plus the grace period
};

struct SpawnWorker {
  int local_rank = 0;
};

// Asks the round source to replace these workers while the others continue to run.
struct AskMend {
  int number = 0;
  WorkerFailure cause;
  std::vector<int> local_ranks;
  bool holds_state = false;             // another local worker has the job's state
  std::optional<std::uint64_t> step{};  // the last one of the local workers; the shell sets it
};

// All local workers have the job's state in this epoch.
struct TellReady {
  std::uint64_t epoch = 0;
};

// The current mend cannot be completed: all workers of the job restart.
struct EndMend {
  std::string reason;
};

// Prints a warning: why all workers are restarted, although only failed ones should be, or which
// workers the others wait for in a mend.
struct WarnOfMend {
  std::string text;
};

// Kills a worker's process group, and the processes that left the group. The worker has failed, or
// it is `deaf`: it has not confirmed the news of a loss in time.
struct KillTree {
  int local_rank = 0;
  bool deaf = false;
};

// The failed workers are dead and are about to be replaced: reports their failures.
struct CloseFailures {
  std::vector<WorkerFailure> failures;
};

// All workers work again.
struct TellMended {
  std::vector<int> local_ranks;  // the replaced workers
  Duration time{};               // since the failure
};

struct SignalGroups {
  int signo = 0;
  GroupsOf which = GroupsOf::all_workers;
};

struct SignalWorkers {
  int signo = 0;
};

// The workers have exited. NothingLeft follows once their leftovers have exited too.
struct AwaitNothingLeft {};

// All workers have succeeded: lists their leftovers, which have `left` to finish.
struct NameLeftovers {
  Duration left{};
};

struct AskLeftovers {};  // sends SIGTERM to the leftover processes

struct LookAtLeftovers {};  // answered at once with LeftoversSeen

// Kills the workers with SIGKILL. Helpers then exit on their own. NothingLeft follows.
struct KillWorkers {
  bool names = false;  // the killed processes were left behind by workers that had exited
};

struct KillEverything {
  bool names = false;
};

// After a second stop request, reports the workers that had not exited yet.
struct TellKilledEarly {
  int signo = 0;
  std::vector<int> local_ranks;
};

// The deadline of a preemption has passed: reports the workers that have not exited.
struct TellLate {
  std::vector<int> local_ranks;
};

struct NameSurvivors {};  // adds to the result the processes that could not be killed in time

// All workers of the attempt have exited: forwards the rest of their output, for at most `timeout`
// if the console is slow.
struct CloseAttempt {
  Duration timeout{};
};

struct Finish {};

// A WorkerFailure is reported to the round source. Failures of the attempt that are detected later
// follow with `after_stop` set.
using SupervisorEffect = std::variant<AwaitRound,
                                      ExpectRound,
                                      TellGone,
                                      WorkerFailure,
                                      ReportSuccess,
                                      ReportFinished,
                                      LeaveRound,
                                      TellDrain,
                                      SpawnWorker,
                                      SignalGroups,
                                      SignalWorkers,
                                      AwaitNothingLeft,
                                      NameLeftovers,
                                      AskLeftovers,
                                      LookAtLeftovers,
                                      KillWorkers,
                                      KillEverything,
                                      TellKilledEarly,
                                      TellLate,
                                      NameSurvivors,
                                      CloseAttempt,
                                      Finish,
                                      AskMend,
                                      TellReady,
                                      EndMend,
                                      WarnOfMend,
                                      KillTree,
                                      CloseFailures,
                                      TellMended>;

using SupervisorEffects = std::vector<SupervisorEffect>;

// One step of the core.
struct SupervisorTurn {
  TimePoint now;
  const SupervisorEvent& event;
  SupervisorEffects& out;
};

}  // namespace muster
