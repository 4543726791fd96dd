// SPDX-License-Identifier: Apache-2.0
// The events of the supervisor core (past tense) and its effects (imperative). Values. SpawnWorker
// is answered immediately: WorkerSpawned or SpawnFailed follows before any other event. The answers
// of the round source (round_source.hpp) may follow immediately or much later.
#pragma once

#include "agent/failures/job_result.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "process/values/process_runner.hpp"

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <sys/types.h>

namespace muster {

struct Started {};

struct RoundFormed {
  int nproc = 1;
  int rank_first = 0;
  int others = 0;  // workers in the round on other nodes
};

// The members of the round changed, or a worker on another node failed: stop, and form a new round.
struct RegroupNotice {
  std::string reason;
};

// This node has lost contact with the others for too long, so they may start without it.
struct Fenced {
  std::string reason;
};

// The job ends for this node: there is no further round, or this node cannot join it.
struct RoundClosed {
  Outcome outcome = Outcome::succeeded;
  std::optional<Close> close;  // multi-node: set if the whole job has ended
  std::optional<Error> error;  // set if the outcome is not_started
  std::string verdict;         // if failed: why there is no further restart; may be empty
};

struct WorkerSpawned {
  int local_rank = 0;
  pid_t pid = 0;
};

struct SpawnFailed {
  int local_rank = 0;
  Error error;
};

struct WorkerExited {
  int local_rank = 0;
  std::optional<WorkerFailure> failure;  // unset if it succeeded
};

struct GroupsEmpty {};

struct NothingLeft {};

struct SignalReceived {
  int signo = 0;
  pid_t sender = 0;
  bool reached_workers = false;  // the sender has also sent the signal to the workers
};

struct LinkLost {};  // the guard died

struct Tick {};  // next_deadline() has passed

// A WorkerFailure is a worker that has failed while the kernel is still freeing its memory. It
// counts as live until WorkerExited.
using SupervisorEvent = std::variant<Started,
                                     RoundFormed,
                                     RegroupNotice,
                                     WorkerSpawned,
                                     SpawnFailed,
                                     WorkerExited,
                                     GroupsEmpty,
                                     NothingLeft,
                                     SignalReceived,
                                     LinkLost,
                                     Tick,
                                     Fenced,
                                     RoundClosed,
                                     WorkerFailure,
                                     LeftoversSeen>;

// The next six effects go to the round source, which documents them.
struct AwaitRound {
  int attempt = 0;  // counts the starts of the local workers, from 0
};

struct TellGone {};

struct ReportSuccess {};

struct ReportFinished {};

// Followed by TellGone, unless RoundClosed arrives first.
struct LeaveRound {
  std::string reason;
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
                                      NameSurvivors,
                                      CloseAttempt,
                                      Finish>;

}  // namespace muster
