// SPDX-License-Identifier: Apache-2.0
// JobResult: how the job ended on this node, and the launcher's exit code. The supervisor core
// creates it, the agent adds evidence, and the report reads it. Value type, pure.
#pragma once

#include "agent/failures/failure.hpp"
#include "process/values/process_runner.hpp"
#include "rendezvous/wire/round_messages.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace muster {

enum class Outcome {
  succeeded,
  failed,       // a worker failed and was not restarted
  interrupted,  // a signal requested a stop
  not_started,  // no round could be formed, or this node may not join; see `error`
  orphaned,     // our guard died, so all processes were killed
  replaced,     // a spare took the place of this node; see `error`
};

// The first failures of several rounds happened on this node. The leader knows it.
struct SuspectedNode {
  std::string node;
  std::string cause;         // of the last failure, as in judgement.hpp
  std::string text;          // for users
  bool is_replaced = false;  // a spare takes its place
  bool operator==(const SuspectedNode&) const = default;
};

// A scheduler announced that it will stop the job. The ranks save their state and exit.
struct Preemption {
  std::string why;                     // the source of the notice, such as "SIGTERM from pid 123"
  std::optional<std::uint64_t> step;   // the step at which all ranks save; none without steps
  std::map<int, std::uint64_t> saved;  // the last step that each rank on this node saved, by rank
  int workers_elsewhere = 0;           // ranks on other nodes
  bool operator==(const Preemption&) const = default;
};

struct JobResult {
  Outcome outcome = Outcome::succeeded;
  std::vector<WorkerFailure> failures;  // from the last attempt, in order of detection
  int stop_signal = 15;                 // the signal that asked the workers to stop
  int interrupting_signal = 0;
  pid_t interrupting_sender = 0;  // 0 if the kernel sent it (from a terminal)
  std::optional<Error> error;     // the reason, if not_started or replaced
  int nproc = 0;
  int attempt = 0;  // number of the last attempt, from 0
  int max_restarts = 0;
  std::optional<Close> close;       // multi-node: how the whole job ended, the same on each node
  std::string verdict;              // why there was no further restart; may be empty
  std::vector<int> overdue;         // local ranks that outlived the grace period
  std::vector<Survivor> survivors;  // processes that could not be killed
  std::optional<Preemption> preemption;
  std::vector<SuspectedNode> suspects;  // only on the leader
  bool output_lost = false;  // the console rejected worker output that no log file contains

  bool operator==(const JobResult&) const = default;
};

// --on-hang=stop ended the job. timeout(1) uses the same code.
inline constexpr int kHungCode = 124;

// The exit codes of shells for a program that they cannot start.
inline constexpr int kNotExecutableCode = 126;
inline constexpr int kNotFoundCode = 127;

// A preempted job should run again. BSD's sysexits.h calls this code EX_TEMPFAIL.
inline constexpr int kPreemptedCode = 75;

[[nodiscard]] int exit_code_of(const JobResult& result);

// True if the job ended because of a preemption: no worker failed and no further signal stopped it.
[[nodiscard]] bool is_preempted(const JobResult& result);

// The worker's exit code as a shell reports it.
[[nodiscard]] int exit_code_of(const WorkerFailure& failure);

// The documented code for a failure of muster itself.
[[nodiscard]] int exit_code_of(const Error& error);

}  // namespace muster
