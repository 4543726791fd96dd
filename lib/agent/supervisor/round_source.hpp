// SPDX-License-Identifier: Apache-2.0
// RoundSource: provides the rounds of a supervisor. It decides when workers start, whether they
// restart after a failure, and when the job ends. The supervisor only reports what happened to the
// workers. LocalRounds decides alone, in a single-node job; SharedRounds decides together with the
// other nodes. One thread.
#pragma once

#include "agent/supervisor/supervisor_effects.hpp"
#include "agent/supervisor/supervisor_events.hpp"
#include "base/error.hpp"
#include "process/values/process_spec.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// A round that was decided: the processes that this node runs, or the reason why this node cannot
// run them. Such a reason counts as a failure of this node's first worker.
struct RoundToRun {
  int nproc = 1;
  int rank_first = 0;
  Result<std::vector<ProcessSpec>> specs;
  int others = 0;  // workers in the round on other nodes
};

// A mend that was decided: the processes that replace failed workers, under a new epoch. The
// round's other workers continue to run.
struct MendToRun {
  int number = 0;  // that of the request; 0 if workers on other nodes are replaced
  std::uint64_t epoch = 0;
  std::vector<ProcessSpec> specs;
  bool last = false;  // no restart is left after this one
};

// The part of the supervisor that a round source may call.
class RoundUser {
 public:
  virtual ~RoundUser() = default;
  // Starts a round that was requested.
  virtual void run_round(RoundToRun round) = 0;
  // Starts a mend that was requested, or one of other nodes.
  virtual void run_mend(MendToRun mend) = 0;
  // Accepts RegroupNotice, Fenced, RoundClosed or MendRefused.
  virtual void handle(const SupervisorEvent& event) = 0;
  // The number of times that this node has started its workers.
  [[nodiscard]] virtual int starts() const = 0;
};

// The interface that the supervisor calls. The source may answer from within the call, or later.
class RoundSource {
 public:
  virtual ~RoundSource() = default;

  // Requests the next round; `attempt` counts from 0. Answered with a round or with the end of the
  // job.
  virtual void await_round(int attempt) = 0;

  // A worker failed `run_time` after the attempt's last worker was started. The workers are being
  // stopped for another round. The root cause is reported first; failures with `after_stop` were
  // detected later. Answered with the end of the job if there is no further round.
  virtual void report_failure(const WorkerFailure& failure) = 0;

  // Workers have failed and may be replaced one by one. Answered with a mend, with MendRefused
  // (then report_failure follows), or with the end of the job.
  virtual void ask_mend(const AskMend& ask) = 0;

  // --restart=rank: all local workers have the job's state in this epoch. Called once per epoch.
  virtual void tell_ready(std::uint64_t epoch) = 0;

  // A mend was granted but cannot be completed. The workers are being stopped for another round.
  virtual void end_mend(const std::string& reason) = 0;

  // All workers succeeded; the processes that they left behind are being killed.
  virtual void report_success() = 0;

  // All of the workers' processes have exited. Answered with the end of the job, or with another
  // round.
  virtual void report_finished() = 0;

  // The workers are being stopped for another round: tell_gone follows, unless the job ends.
  virtual void expect_round() {}

  // All of the workers' processes have exited after a stop.
  virtual void tell_gone() = 0;

  // This node was asked to leave. Answered with RoundClosed once the node may leave.
  virtual void leave_round(const LeaveRound& asked) = 0;

  // Called before a worker's exit is evaluated. If this node slept past the end of its lease, the
  // other nodes may have started a round without it. In that case this node is fenced, and no
  // worker has failed.
  virtual void check_lease() = 0;

  // The last call: closes the store and stops renewing the lease.
  virtual void close() = 0;
};

}  // namespace muster
