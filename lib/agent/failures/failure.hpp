// SPDX-License-Identifier: Apache-2.0
// WorkerFailure: one failed worker. root_cause() determines which of several failures is the root
// cause. When a worker fails, the supervisor creates a WorkerFailure with the evidence, and the
// same value reaches the other nodes, the report and events.jsonl (agent/DEATHS.md). Value types,
// pure.
#pragma once

#include "agent/failures/judgement.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "process/values/process_runner.hpp"
#include "rendezvous/wire/node_messages.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster {

// The content of an error file that a worker wrote (parsed by agent/failures/error_file.hpp).
struct ErrorRecord {
  std::string message;                 // "RuntimeError: boom"
  std::string traceback;               // may be empty
  std::optional<double> unix_seconds;  // time of the exception, usually in whole seconds
  bool operator==(const ErrorRecord&) const = default;
};

struct WorkerFailure : WorkerExit {
  int rank = 0;
  int attempt = 0;
  std::optional<Error> spawn_error;  // set if the worker never ran
  bool lost_connection = false;      // its connection to another worker broke (lost_connection.hpp)
  bool after_stop = false;           // detected after we had asked the workers to stop
  bool hung = false;                 // --on-hang killed it because the job made no progress
  bool ends_job = false;             // --on-hang=stop: killed with no restart
  bool preempted = false;            // detected after a notice of preemption: no restart
  double wall_seconds = 0;           // Unix time at which the failure was detected
  Duration run_time{};               // from the start of the attempt's last worker to the failure
  // Evidence, which is read once, when the worker's death is detected.
  std::string stderr_tail;
  std::string python;      // path of the Python interpreter; empty if muster did not choose one
  std::string error_file;  // path of the error file; empty if it does not exist
  std::optional<ErrorRecord> record;
  std::optional<std::uint64_t> step;   // the last step that this node's workers had reported
  bool startup_error = false;          // an import, syntax or usage error: others may follow
  bool no_restart = false;             // the judgement ends the job
  std::optional<Judgement> judgement;  // of the round; only for the failure that was reported first

  bool operator==(const WorkerFailure&) const = default;
};

// True if our own stop killed the worker: it died from one of the signals that a stop sends, or it
// exited with the code that shells and handlers use for that signal. Such a worker did not fail.
[[nodiscard]] bool was_stopped_by_us(const WorkerFailure& failure, int stop_signal);

// The root cause among the failures of one attempt, which must be in order of detection. The root
// cause is the first failure, unless another worker's error file proves that an exception was
// raised before the first worker exited. A worker that we stopped can be the cause only with such
// proof. A worker that lost its connection is not the cause if another worker's failure was
// detected before anything was stopped. None if there is no failure.
[[nodiscard]] std::optional<std::size_t> root_cause(const std::vector<WorkerFailure>& failures,
                                                    int stop_signal);

// The name of the cause if a restart on another node may help; otherwise empty.
[[nodiscard]] std::string node_cause_of(const WorkerFailure& failure);

// Converts the failure to the message that the leader and the restart policy receive. The caller
// sets the fields about the round: `round`, `age` and `consequence`.
[[nodiscard]] Failed failed_message(const WorkerFailure& failure);

// "exited with code 7", "killed by SIGKILL: out of memory (limit 512 MiB, peak 512 MiB)",
// "could not be started: …".
// With --on-child-death: "lost its process 123 (python3), killed by SIGKILL".
[[nodiscard]] std::string describe_end(const WorkerFailure& failure);

// Like the overload above, but for an exit that may be a success. Omits the memory usage.
[[nodiscard]] std::string describe_end(const WorkerExit& exit);

}  // namespace muster
