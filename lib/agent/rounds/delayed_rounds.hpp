// SPDX-License-Identifier: Apache-2.0
// DelayedRounds: waits before a restart. Wraps a round source. If a worker on this node has failed,
// it delays the report that this node's workers have exited, so that the other nodes wait too.
// Used by the agent; pure except for its site.
#pragma once

#include "agent/rounds/restart_delay.hpp"
#include "agent/rounds/round_filter.hpp"
#include "base/time.hpp"

#include <optional>
#include <string>
#include <utility>

namespace muster {

class DelaySite {
 public:
  virtual ~DelaySite() = default;
  // Answered with DelayedRounds::end_wait after this time, unless the wait is cancelled. `grows`:
  // the delay is longer than the last one because there was no progress.
  virtual void begin_wait(Duration delay, bool grows) = 0;
  virtual void cancel_wait() = 0;
};

class DelayedRounds final : public RoundFilter {
 public:
  DelayedRounds(RoundSource& rounds, DelaySite& site, RestartDelaySettings settings)
      : RoundFilter(rounds), site_(site), delay_(settings) {}

  void report_failure(const WorkerFailure& failure) override {
    if (!is_due_ && !failure.after_stop && !failure.preempted) {
      is_due_ = true;
      delay_.note(failure);
    }
    rounds().report_failure(failure);
  }

  // The mend becomes a restart of all workers.
  void end_mend(const std::string& reason) override {
    is_due_ = true;
    rounds().end_mend(reason);
  }

  void tell_gone() override {
    is_gone_ = true;
    go_on();
  }

  void await_round(int attempt) override {
    awaited_ = attempt;
    go_on();
  }

  // A signal ends the wait, because there is no next round.
  void leave_round(const LeaveRound& asked) override {
    cancel();
    rounds().leave_round(asked);
  }

  void close() override {
    cancel();
    rounds().close();
  }

  void end_wait() {
    is_waiting_ = false;
    go_on();
  }

 private:
  void go_on() {
    const Duration delay = delay_.next();
    if (std::exchange(is_due_, false) && delay > Duration::zero()) {
      is_waiting_ = true;
      site_.begin_wait(delay, delay_.grows());
    }
    if (is_waiting_) {
      return;
    }
    if (std::exchange(is_gone_, false)) {
      rounds().tell_gone();
    }
    if (const auto attempt = std::exchange(awaited_, std::nullopt)) {
      rounds().await_round(*attempt);
    }
  }

  void cancel() {
    is_due_ = false;
    is_gone_ = false;
    awaited_.reset();
    if (std::exchange(is_waiting_, false)) {
      site_.cancel_wait();
    }
  }

  DelaySite& site_;
  RestartDelay delay_;
  bool is_due_ = false;  // a worker has failed, so the next round must wait
  bool is_waiting_ = false;
  bool is_gone_ = false;        // all processes of the last round have exited
  std::optional<int> awaited_;  // argument for the delayed await_round()
};

}  // namespace muster
