// SPDX-License-Identifier: Apache-2.0
// What can happen to the supervisor core (past tense) and what it wants done (imperative). Values.
// An effect with an immediate answer is followed by that answer before any other event: OpenRound
// by RoundFormed or RoundFailed, SpawnWorker by WorkerSpawned or SpawnFailed. Jobs of many nodes
// have AwaitRound instead of OpenRound: RoundFormed comes when the nodes have agreed.
#pragma once

#include "agent/job_result.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "process/process_runner.hpp"

#include <optional>
#include <string>
#include <variant>

#include <sys/types.h>

namespace muster {

struct Started {};

struct RoundFormed {
  int nproc = 1;
  int rank_first = 0;
};

struct RoundFailed {
  Error error;
};

// The members of the round changed, or a worker of another node failed: stop, and form a new one.
struct RegroupNotice {
  std::string reason;
};

// This node has lost touch with the others for too long: they may start without it.
struct Fenced {
  std::string reason;
};

// The job ends for this node, by the word of the others or because it cannot take part.
struct RoundClosed {
  Outcome outcome = Outcome::succeeded;
  std::optional<Close> close;  // where the whole job has ended
  std::optional<Error> error;  // not_started
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
  double wall_seconds = 0;  // for words and files only
};

// Of a failure, while the kernel still frees its memory: it lives for us until its WorkerExited.
struct WorkerDying {
  WorkerExit exit;
  double wall_seconds = 0;
};

struct GroupsEmpty {};

struct NothingLeft {};

struct SignalReceived {
  int signo = 0;
  pid_t sender = 0;
};

// The guard died.
struct LinkLost {};

// next_deadline() has come.
struct Tick {};

using SupervisorEvent = std::variant<Started,
                                     RoundFormed,
                                     RoundFailed,
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
                                     WorkerDying>;

struct OpenRound {
  int attempt = 0;   // starts of the local workers, from 0
  int restarts = 0;  // those of them that a failure caused
};

// Many nodes: the next round is awaited. `attempt` as above.
struct AwaitRound {
  int attempt = 0;
};

// Many nodes: no process of the workers is left.
struct TellGone {};

// Many nodes: a worker failed, `run_time` after the last one was started. Later failures of the
// attempt follow as they are seen, with `after_stop`.
struct ReportFailure {
  WorkerFailure failure;
  Duration run_time{};
};

// Many nodes: all workers ended well, and nothing of them is left.
struct ReportFinished {};

// Many nodes: this one was told to end. TellGone follows.
struct LeaveRound {
  std::string reason;
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

struct KillEverything {};

// Put what is still there into the result: it could not be killed in time.
struct NameSurvivors {};

// All workers of the attempt are gone: pass on the rest of their output, for which a slow console
// gets `patience`, and look at their error files.
struct CloseAttempt {
  Duration patience{};
};

// One line for people.
struct Warn {
  std::string words;
};

struct Finish {};

using SupervisorEffect = std::variant<OpenRound,
                                      AwaitRound,
                                      TellGone,
                                      ReportFailure,
                                      ReportFinished,
                                      LeaveRound,
                                      SpawnWorker,
                                      SignalGroups,
                                      SignalWorkers,
                                      KillEverything,
                                      NameSurvivors,
                                      CloseAttempt,
                                      Warn,
                                      Finish>;

}  // namespace muster
