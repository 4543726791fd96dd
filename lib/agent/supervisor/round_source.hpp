// SPDX-License-Identifier: Apache-2.0
// RoundSource: provides a supervisor's rounds. It decides when workers start, whether they restart
// after a failure, and when the job is over. The supervisor only reports what happened to the
// workers. LocalRounds decides alone in a single-node job; SharedRounds asks the other nodes. One
// thread.
#pragma once

#include "agent/supervisor/supervisor_events.hpp"
#include "base/error.hpp"
#include "process/values/process_spec.hpp"

#include <string>
#include <vector>

namespace muster {

class HangListener;

// A round that was decided on: what this node runs in it, or why it cannot. The latter counts as a
// failure of its first worker.
struct RoundToRun {
  int nproc = 1;
  int rank_first = 0;
  Result<std::vector<ProcessSpec>> specs;
  int others = 0;  // workers of the round on other nodes
};

// What a round source may call: the supervisor as the source sees it.
class RoundUser {
 public:
  virtual ~RoundUser() = default;
  // Starts a round that was requested.
  virtual void run_round(RoundToRun round) = 0;
  // Takes RegroupNotice, Fenced or RoundClosed.
  virtual void handle(const SupervisorEvent& event) = 0;
  // How often this node has started its workers so far.
  [[nodiscard]] virtual int starts() const = 0;
};

// What the supervisor calls. The source may answer from inside the call, or later.
class RoundSource {
 public:
  virtual ~RoundSource() = default;

  // --hang-timeout: sets the object that diagnoses hangs. It must outlive the source.
  virtual void use(HangListener& /*party*/) {}

  // Requests the next round; `attempt` counts from 0. Answered by a round or by the end of the job.
  virtual void await_round(int attempt) = 0;

  // A worker failed, `run_time` after the last one was started; the workers are being stopped for
  // another round. Reports the root cause first; failures with `after_stop` were seen later.
  // Answered by the end of the job if there is no other round.
  virtual void report_failure(const WorkerFailure& failure, Duration run_time) = 0;

  // All workers succeeded; the processes that they left behind are being killed.
  virtual void report_success() = 0;

  // None of their processes is left. Answered by the end of the job, or by another round.
  virtual void report_finished() = 0;

  // After a stop, no process of the workers is left.
  virtual void tell_gone() = 0;

  // This node was asked to leave. Answered by RoundClosed once it may.
  virtual void leave_round(const std::string& reason) = 0;

  // Called before a worker's exit is evaluated. If this node has overslept its lease, the others
  // may have started without it: then it is fenced, and no worker has failed.
  virtual void check_lease() = 0;

  // The end: closes the store and stops the lease.
  virtual void close() = 0;
};

}  // namespace muster
