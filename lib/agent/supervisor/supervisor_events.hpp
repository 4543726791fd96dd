// SPDX-License-Identifier: Apache-2.0
// The events of the supervisor core, named in the past tense. Values. SpawnWorker is answered
// immediately: WorkerSpawned or SpawnFailed follows before any other event. The answers of the
// round source (round_source.hpp) may follow immediately or much later.
#pragma once

#include "agent/failures/job_result.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "process/values/process_runner.hpp"

#include <cstdint>
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
  bool is_planned = false;  // after a notice of preemption: the workers save and exit on their own
};

// This node has lost contact with the others for too long, so they may start without it.
struct Fenced {
  std::string reason;
};

// The job ends for this node: there is no further round, or this node cannot join it.
struct RoundClosed {
  Outcome outcome = Outcome::succeeded;
  std::optional<Close> close;  // multi-node: set if the whole job has ended
  std::optional<Error> error;  // set if the outcome is not_started or replaced
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
  bool asks_again = false;               // it exited with kPreemptedCode
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

// Answers to AskMend (supervisor_mend.cpp). `number` is the number of the request; a later request
// replaces an earlier one. The round's workers use this epoch from now on. If the number is 0, only
// workers on other nodes are replaced.
struct MendFormed {
  int number = 0;
  std::uint64_t epoch = 0;
  bool last = false;  // no restart is left after this one
};

struct MendRefused {
  int number = 0;
  std::string reason;
};

// A worker that survives mends has the job's state and works in this epoch.
struct WorkerReady {
  int local_rank = 0;
  std::uint64_t epoch = 0;
};

// A worker that survived mends until now cannot survive another one.
struct WorkerLeft {
  int local_rank = 0;
};

// The library of a worker that survives mends has received the news of a loss. The pause is the
// longest one between two of the worker's steps. `arrived`: the worker waits until all workers have
// the job's state; at the start of the job, too.
struct WorkerHeard {
  int local_rank = 0;
  Duration longest_pause{};
  bool arrived = false;
};

// What a scheduler stops: the job, or (--preempt-scope=node) only some of its nodes.
enum class Preempts { job, this_node, other_node };

// A scheduler has announced that it will stop the job or a node at this time. Workers that exit
// with 0 or kPreemptedCode from now on have succeeded. No worker restarts on a node that is
// stopped.
struct Preempted {
  std::string why;
  TimePoint deadline{};
  Preempts what = Preempts::job;
};

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
                                     LeftoversSeen,
                                     MendFormed,
                                     MendRefused,
                                     WorkerReady,
                                     WorkerLeft,
                                     WorkerHeard,
                                     Preempted>;

}  // namespace muster
