// SPDX-License-Identifier: Apache-2.0
// WorkerFailure: one worker that did not end well, and which of several is the root cause. Filled
// by the supervisor core; the agent adds what it finds on disk. Value types, pure.
#pragma once

#include "base/error.hpp"
#include "process/values/exit_status.hpp"
#include "process/values/process_runner.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace muster {

// What a worker's own error file says (agent/failures/error_file.hpp reads it).
struct ErrorRecord {
  std::string message;                 // "RuntimeError: boom"
  std::string traceback;               // may be empty
  std::optional<double> unix_seconds;  // when the exception was raised, whole seconds as a rule
  bool operator==(const ErrorRecord&) const = default;
};

struct WorkerFailure {
  int local_rank = 0;
  int rank = 0;
  pid_t pid = 0;
  int attempt = 0;
  ExitStatus status;
  std::optional<Error> spawn_error;  // it never ran
  bool out_of_memory = false;
  std::string memory_usage;
  std::string lost_child;        // whose end this is; empty: the worker's own
  bool lost_connection = false;  // it failed because it lost another worker (lost_connection.hpp)
  bool after_stop = false;       // seen after we had asked the workers to stop
  bool hung = false;             // --on-hang: it was ended because the job made no progress,
  bool ends_job = false;         // and no restart is wanted
  double wall_seconds = 0;       // unix time at which it was seen
  // Evidence, gathered after the attempt.
  std::string stderr_tail;
  std::string python;      // that ran it; empty where muster did not choose one
  std::string error_file;  // path; empty where there is none
  std::optional<ErrorRecord> record;

  bool operator==(const WorkerFailure&) const = default;
};

// Ended by our own stop: killed by one of the signals that a stop sends, or gone with the code that
// shells and handlers use for it, after we had sent it. Such a worker did not fail.
[[nodiscard]] bool was_stopped_by_us(const WorkerFailure& failure, int stop_signal);

// The root cause among the failures of one attempt, in the order in which they were seen: the first
// one, unless another one's error file proves that its exception was raised before the first one
// ended. Peers that we stopped count only with such a proof. A worker that lost the connection to
// another one is not the cause if that other one was seen to fail before anything was stopped. None
// where nothing failed.
[[nodiscard]] std::optional<std::size_t> root_cause(const std::vector<WorkerFailure>& failures,
                                                    int stop_signal);

// "exited with code 7", "killed by SIGKILL: out of memory (limit 512 MiB, peak 512 MiB)",
// "could not be started: …".
// With --on-child-death: "lost its process 123 (python3), killed by SIGKILL".
[[nodiscard]] std::string describe_end(const WorkerFailure& failure);

// The same for one that may have ended well, without the memory.
[[nodiscard]] std::string describe_end(const WorkerExit& exit);

}  // namespace muster
