// SPDX-License-Identifier: Apache-2.0
// JobEvent: an observation by the agent, with a timestamp. All of the agent's output (lines on
// stderr, the roll call, the report, events.jsonl) is derived only from these events. EVENTS.md
// documents them for readers of events.jsonl. Values.
#pragma once

#include "agent/events/round_event.hpp"
#include "agent/failures/job_result.hpp"
#include "base/log_level.hpp"
#include "check/judge.hpp"
#include "hang/report/verdict_text.hpp"
#include "plan/assignment.hpp"
#include "process/values/process_runner.hpp"
#include "rendezvous/wire/coordinator_messages.hpp"
#include "straggler/slow.hpp"
#include "worker/channel/frames.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace muster {

namespace event {

// The first event.
struct JobStarted {
  std::string program;  // name as typed, without arguments
  int workers = 0;      // number of workers on this node
  int max_restarts = 0;
  std::string version;
  std::string job = {};            // --rdzv-id
  pid_t launcher_pid = 0;          // the guard: the process that a user signals to stop this node
  std::string scheduler_job = {};  // the scheduler's id of the job; empty if there is none
};

// The address on which --http listens.
struct HttpOpened {
  std::string address;
  int port = 0;
};

// In a multi-node job, this node starts waiting for a round.
struct RoundAwaited {};

// --check, before a round's workers are started, and musterctl check: the verdict about all nodes.
struct NodesChecked {
  check::Verdict verdict;
  double seconds = 0;  // since this node began to wait for it, or began to measure itself
};

// In a multi-node job, this node has finished and waits for the others. Its status lines are no
// longer repeated.
struct PartDone {};

// In a multi-node job, lists which nodes are present and which are missing, or contains the reason
// why this node cannot reach the others.
struct RollCallHeard {
  RollCall call;
  std::string trouble;
};

// A round has begun. Its workers have not been started yet.
struct RoundBegun {
  Assignment assignment;
  bool shared = false;     // the round includes other nodes
  std::string run_folder;  // empty if it does not exist
  std::string logs;        // equals run_folder if the directory is kept after the job, else empty
  MembershipChange change = {};
  std::vector<RoundNode> nodes = {};  // multi-node: all nodes in the round, in group-rank order
};

struct WorkerStarted {
  int local_rank = 0;
  int rank = 0;
  pid_t pid = 0;
};

// If `reaped` is false, the exit status is known, but the kernel is still freeing the worker's
// memory.
struct WorkerEnded {
  WorkerExit exit;
  int rank = 0;
  bool reaped = true;
};

// Reports from workers over their channel (worker/channel/CHANNEL.md).
struct WorkerReady {
  int rank = 0;
  int local_rank = 0;
};

struct WorkerHealthy {
  int rank = 0;
  int local_rank = 0;
};

struct WorkerUnhealthy {
  int rank = 0;
  int local_rank = 0;
  std::string why;
};

struct WorkerToldEvent {
  int rank = 0;
  int local_rank = 0;
  std::string data;  // JSON
};

// Workers are restarted because this one failed: all workers of a single-node job, or `replaced`.
struct RestartDecided {
  int rank = 0;
  int local_rank = 0;     // -1 if it is on another node
  pid_t pid = 0;          // 0 if the worker could not be started, or in a multi-node job
  int restart = 0;        // the number of this restart, from 1
  int restarts_left = 0;  // after this restart
  std::string text = {};  // describes to the user how the worker exited
  // --restart=rank: the ranks that are replaced in the running round, under a new epoch
  // (JobEvent::round). Empty if all workers are restarted.
  std::vector<int> replaced = {};
};

// --restart=rank: all ranks on this node work again.
struct Mended {
  std::vector<int> ranks;  // the replaced ranks on this node
  double seconds = 0;      // since the failure was detected, or since this node was told of it
};

// A scheduler has announced that it will stop the job, and the ranks agree on the step at which
// they save.
struct PreemptionBegun {
  std::string why;                    // the source of the notice
  double seconds = 0;                 // until the deadline
  std::optional<std::uint64_t> step;  // none if no rank reports steps
  bool is_of_node = false;            // the job continues without the node that is stopped
};

// A worker reported over its channel that it has saved its state as of this step.
struct StepSaved {
  int rank = 0;
  int local_rank = 0;
  std::uint64_t step = 0;
};

// A worker on this node has reported the first step of this round.
struct FirstStep {
  int local_rank = 0;
  std::uint64_t step = 0;
};

// --restart=rank: the ranks return to their last commit or step, so this time's work is lost.
struct RolledBack {
  double seconds = 0;
};

// This node waits before the next round (--restart-delay).
struct RestartDelayed {
  double seconds = 0;
};

// The round stops and a new one forms.
struct RegroupAsked {
  std::string reason;
  RankSpan gone = {};  // ranks whose exit is the reason for the new round
};

// This node has lost contact with the other nodes, so they may continue without it.
struct NodeFenced {
  std::string reason;
};

struct SignalTaken {
  int signo = 0;
  pid_t sender = 0;  // 0 if the kernel sent it (from a terminal)
};

// A signal that was sent to the process groups of all workers.
struct WorkersSignalled {
  int signo = 0;
};

struct WorkersKilled {};

// Processes that workers left running when they exited. They may exit on their own, were sent
// SIGTERM, or were killed.
struct LeftoversFound {
  enum class Fate { awaited, asked, killed };

  Fate fate = Fate::awaited;
  std::vector<Leftover> processes;
  Duration time_left{};  // for Fate::awaited: the time until the processes get SIGTERM
};

// The workers make no progress. Contains the ranks that block the job and the reason. Emitted
// before any process is killed because of the hang.
struct HangFound {
  hang::Verdict verdict;
  hang::VerdictFacts facts;
  std::string told_by =
      {};  // multi-node: the node that prints the verdict; empty if this node prints it
};

// The workers make progress again after a HangFound.
struct HangOver {
  double quiet = 0;      // seconds without progress
  bool is_shown = true;  // multi-node: true on the node that printed the verdict
};

// A line of output for the user that no other event contains.
struct Message {
  LogLevel level = LogLevel::warning;
  std::string text;
};

// The last event.
struct JobEnded {
  JobResult result;
  std::string logs;  // the run directory if it is kept, else empty
};

// A WorkerFailure describes a worker that failed without being stopped by us, including all the
// evidence. It is emitted after the attempt has ended.
using What = std::variant<JobStarted,
                          HttpOpened,
                          RoundAwaited,
                          PartDone,
                          RollCallHeard,
                          RoundBegun,
                          NodesChecked,
                          WorkerStarted,
                          WorkerEnded,
                          WorkerReady,
                          WorkerHealthy,
                          WorkerUnhealthy,
                          WorkerToldEvent,
                          WorkerFailure,
                          RestartDecided,
                          Mended,
                          PreemptionBegun,
                          StepSaved,
                          FirstStep,
                          RolledBack,
                          RestartDelayed,
                          RegroupAsked,
                          NodeFenced,
                          SuspectedNode,
                          SignalTaken,
                          WorkersSignalled,
                          WorkersKilled,
                          LeftoversFound,
                          HangFound,
                          HangOver,
                          straggler::Named,
                          straggler::Over,
                          Message,
                          JobEnded>;

}  // namespace event

struct JobEvent {
  double unix_time = 0;
  std::string node;         // name of this host
  std::uint64_t round = 0;  // job-wide round number; 0 before the first round
  event::What what;
};

}  // namespace muster
