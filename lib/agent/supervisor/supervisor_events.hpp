// SPDX-License-Identifier: Apache-2.0
// What can happen to the supervisor core (past tense) and what it wants done (imperative). Values.
// SpawnWorker has an immediate answer: WorkerSpawned or SpawnFailed follows before any other event.
// The answers of the source of rounds (round_source.hpp) may follow at once or much later.
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
  int others = 0;  // workers of the round on other nodes
};

// The members of the round changed, or a worker of another node failed: stop, and form a new one.
struct RegroupNotice {
  std::string reason;
};

// This node has lost touch with the others for too long: they may start without it.
struct Fenced {
  std::string reason;
};

// The job ends for this node: there is no other round, or this node cannot take part in it.
struct RoundClosed {
  Outcome outcome = Outcome::succeeded;
  std::optional<Close> close;  // many nodes: where the whole job has ended
  std::optional<Error> error;  // not_started
  std::string verdict;         // failed: why there is no further restart; may be empty
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
  WorkerExit exit;
  double wall_seconds = 0;       // for texts and files only
  bool lost_connection = false;  // a failure that another worker's may have caused
};

// Of a failure, while the kernel still frees its memory: it lives for us until its WorkerExited.
struct WorkerDying {
  WorkerExit exit;
  double wall_seconds = 0;
};

struct GroupsEmpty {};

struct NothingLeft {};

struct OnlyDeafLeft {};  // all that is left ignores SIGTERM

struct SignalReceived {
  int signo = 0;
  pid_t sender = 0;
  bool reached_workers = false;  // whoever sent it has sent it to them as well
};

struct LinkLost {};  // the guard died

struct Tick {};  // next_deadline() has come

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
                                     WorkerDying,
                                     OnlyDeafLeft>;

// The next six are for the source of rounds, which says what each means.
struct AwaitRound {
  int attempt = 0;  // starts of the local workers, from 0
};

struct TellGone {};

// Later failures of the attempt follow as they are seen, with `after_stop`.
struct ReportFailure {
  WorkerFailure failure;
  Duration run_time{};
};

struct ReportSuccess {};

struct ReportFinished {};

// TellGone follows unless the answer came before.
struct LeaveRound {
  std::string reason;
};

// The scheduler ends the job: the workers have so long to end by themselves.
struct TellDrain {
  int signo = 0;
  Duration left{};
  bool until_job_ends = false;  // and the grace on top of it
};

struct SpawnWorker {
  int local_rank = 0;
};

struct SignalGroups {
  int signo = 0;
};

struct SignalWorkers {
  int signo = 0;
};

// The workers are done. NothingLeft follows once nothing that they left behind is left.
struct AwaitNothingLeft {};

// The workers have all succeeded: what they left behind has so long to finish. For people.
struct NameLeftovers {
  Duration left{};
};

struct AskLeftovers {};  // by SIGTERM

struct LookAtLeftovers {};  // OnlyDeafLeft follows where it is true

// SIGKILL to the workers, but not to helpers that exit by themselves then. NothingLeft follows.
struct KillWorkers {
  bool names = false;  // what is killed was left behind by workers that had ended
};

struct KillEverything {
  bool names = false;
};

// A second request to stop: these had not ended.
struct TellKilledEarly {
  int signo = 0;
  std::vector<int> local_ranks;
};

struct NameSurvivors {};  // in the result: they could not be killed in time

// All workers of the attempt are gone: pass on the rest of their output, for which a slow console
// gets `timeout`, and look at their error files.
struct CloseAttempt {
  Duration timeout{};
};

struct Finish {};

using SupervisorEffect = std::variant<AwaitRound,
                                      TellGone,
                                      ReportFailure,
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
