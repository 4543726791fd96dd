// SPDX-License-Identifier: Apache-2.0
// JobEvent: one thing that the agent has learned, and when. All that it says (lines on stderr, the
// roll call, the report, events.jsonl) is made of these and of nothing else. EVENTS.md says what
// each means to readers of events.jsonl. Values.
#pragma once

#include "agent/events/round_event.hpp"
#include "agent/failures/job_result.hpp"
#include "base/log.hpp"
#include "hang/report/verdict_text.hpp"
#include "plan/assignment.hpp"
#include "process/values/process_runner.hpp"
#include "rendezvous/wire/coordinator_messages.hpp"
#include "straggler/slow.hpp"
#include "worker/channel/frames.hpp"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace muster {

namespace event {

// The first one.
struct JobStarted {
  std::string program;  // its name as typed, without its arguments
  int workers = 0;      // on this node
  int max_restarts = 0;
  std::string version;
  std::string job = {};    // its name: --rdzv-id
  pid_t launcher_pid = 0;  // what a user signals to end this node's part: the guard
};

// --http: where it listens.
struct HttpOpened {
  std::string address;
  int port = 0;
};

// Many nodes: from now on a round is waited for.
struct RoundAwaited {};

// Many nodes: this node has done its part; what is said while it waits is said once.
struct PartDone {};

// Many nodes: who is there and who is missing, or why this node hears of nobody.
struct RollCallHeard {
  RollCall call;
  std::string trouble;
};

// The workers are started next.
struct RoundBegun {
  Assignment assignment;
  bool shared = false;     // with other nodes
  std::string run_folder;  // empty where there is none
  std::string logs;        // the same where it is the user's, and stays
  MembershipChange change = {};
  std::vector<RoundNode> nodes = {};  // many nodes: all of the round, in the order of group ranks
};

struct WorkerStarted {
  int local_rank = 0;
  int rank = 0;
  pid_t pid = 0;
};

// Where `reaped` is false it is known to end like this, and the kernel still frees its memory.
struct WorkerEnded {
  WorkerExit exit;
  int rank = 0;
  bool reaped = true;
};

// What workers say over their channel (worker/channel/CHANNEL.md).
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

// A worker that failed and was not ended by our own stop, with all that it left. Comes after its
// attempt.
struct WorkerFailed {
  WorkerFailure failure;
};

// One node: all workers are started again, because this one failed.
struct RestartDecided {
  int rank = 0;
  int local_rank = 0;
  pid_t pid = 0;          // 0: it could not be started
  int restart = 0;        // its number, from 1
  int restarts_left = 0;  // after this one
  std::string text = {};  // the same for people, with how the worker ended
};

// The round ends for another one.
struct RegroupAsked {
  std::string reason;
  RankSpan gone = {};  // ranks whose end is the reason
};

// This node has lost touch with the others, who may go on without it.
struct NodeFenced {
  std::string reason;
};

struct SignalTaken {
  int signo = 0;
  pid_t sender = 0;  // 0: the kernel (a terminal)
};

// To all process groups of the workers.
struct WorkersSignalled {
  int signo = 0;
};

struct WorkersKilled {};

// Processes that workers left behind when they ended: they have time to exit by themselves, were
// sent SIGTERM, or were killed.
struct LeftoversFound {
  enum class Fate { awaited, asked, killed };

  Fate fate = Fate::awaited;
  std::vector<Leftover> processes;
  Duration time_left{};  // awaited: until they are sent SIGTERM
};

// The workers make no progress: who holds them up, and why. Comes before anything is ended.
struct HangFound {
  hang::Verdict verdict;
  hang::VerdictFacts facts;
  std::string told_by = {};  // many nodes: another one, which shows the block; empty: this one
};

// After such a verdict they go on.
struct HangOver {
  double quiet = 0;      // so many seconds nothing had happened
  bool is_shown = true;  // many nodes: where the block was
};

// A line for people that is no other event.
struct Message {
  LogLevel level = LogLevel::warning;
  std::string text;
};

// The last one.
struct JobEnded {
  JobResult result;
  std::string logs;  // the run folder as far as it stays; empty where it does not
};

using What = std::variant<JobStarted,
                          HttpOpened,
                          RoundAwaited,
                          PartDone,
                          RollCallHeard,
                          RoundBegun,
                          WorkerStarted,
                          WorkerEnded,
                          WorkerReady,
                          WorkerHealthy,
                          WorkerUnhealthy,
                          WorkerToldEvent,
                          WorkerFailed,
                          RestartDecided,
                          RegroupAsked,
                          NodeFenced,
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
  std::string node;         // this machine
  std::uint64_t round = 0;  // as all nodes count it; 0: before the first one
  event::What what;
};

}  // namespace muster
