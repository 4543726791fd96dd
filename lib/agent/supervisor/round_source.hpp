// SPDX-License-Identifier: Apache-2.0
// RoundSource: where a supervisor's rounds come from. It decides when workers start, whether they
// start again after a failure, and when the job is over; the supervisor only tells it what became
// of the workers. LocalRounds decides by itself for a job of one node; SharedRounds asks the other
// nodes. One thread.
#pragma once

#include "agent/supervisor/supervisor_events.hpp"
#include "base/error.hpp"
#include "process/values/process_spec.hpp"

#include <string>
#include <vector>

namespace muster {

class HangListener;

// A round that was decided on: what this node runs in it, or why it cannot, which is the failure of
// its first worker.
struct RoundToRun {
  int nproc = 1;
  int rank_first = 0;
  Result<std::vector<ProcessSpec>> specs;
  int others = 0;  // workers of the round on other nodes
};

// What a source of rounds may tell: the supervisor, seen from there.
class RoundUser {
 public:
  virtual ~RoundUser() = default;
  // A round that was awaited may begin.
  virtual void run_round(RoundToRun round) = 0;
  // RegroupNotice, Fenced, RoundClosed.
  virtual void handle(const SupervisorEvent& event) = 0;
  // Starts of this node's workers so far.
  [[nodiscard]] virtual int starts() const = 0;
};

// What the supervisor tells. Each may be answered at once, from inside of the call, or later.
class RoundSource {
 public:
  virtual ~RoundSource() = default;

  // --hang-timeout: who finds out about hangs, and knows which failures were some. Lives as long.
  virtual void use(HangListener& /*listener*/) {}

  // The next round is wanted; `attempt` counts them from 0. Answered by a round, or by the end of
  // the job.
  virtual void await_round(int attempt) = 0;

  // A worker failed, `run_time` after the last one was started; the workers are being stopped for
  // another round. The root cause first; those with `after_stop` were seen later. Answered by the
  // end of the job where there is to be no other round.
  virtual void report_failure(const WorkerFailure& failure, Duration run_time) = 0;

  // All workers ended well; what they left behind is being killed.
  virtual void report_success() = 0;

  // And nothing of them is left. Answered by the end of the job, or by another round.
  virtual void report_finished() = 0;

  // No process of the workers is left, after they were stopped.
  virtual void tell_gone() = 0;

  // This node was asked to end. Answered by RoundClosed when it may.
  virtual void leave_round(const std::string& reason) = 0;

  // A worker's end was seen and is judged next. If this node has slept through its lease, the
  // others may have started without it: then it was fenced, and nothing failed.
  virtual void check_lease() = 0;

  // The end: no store, no lease.
  virtual void close() = 0;
};

}  // namespace muster
