// SPDX-License-Identifier: Apache-2.0
// What can happen to the supervisor core (past tense) and what it wants done (imperative). Values.
// An effect with an immediate answer is followed by that answer before any other event: OpenRound
// by RoundFormed or RoundFailed, SpawnWorker by WorkerSpawned or SpawnFailed.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"
#include "process/process_runner.hpp"

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

// The members of the round changed: stop, and form a new one.
struct RegroupNotice {
  std::string reason;
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
                                     Tick>;

struct OpenRound {
  int attempt = 0;   // starts of the local workers, from 0
  int restarts = 0;  // those of them that a failure caused
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
                                      SpawnWorker,
                                      SignalGroups,
                                      SignalWorkers,
                                      KillEverything,
                                      NameSurvivors,
                                      CloseAttempt,
                                      Warn,
                                      Finish>;

}  // namespace muster
