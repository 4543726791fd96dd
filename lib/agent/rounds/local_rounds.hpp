// SPDX-License-Identifier: Apache-2.0
// LocalRounds: the round source of a single-node job. It opens a round as soon as one is requested.
// After a failure, the restart policy decides whether there is another round. Used by the agent,
// the simulator and the supervisor's tests; value-like except for its references.
#pragma once

#include "agent/events/job_event.hpp"
#include "agent/supervisor/round_source.hpp"
#include "base/check.hpp"
#include "rendezvous/round/restart_policy.hpp"

#include <string>
#include <utility>
#include <vector>

namespace muster {

// The functions that LocalRounds calls to open and close rounds.
class LocalRoundsSite {
 public:
  virtual ~LocalRoundsSite() = default;
  // Opens a new store. Returns the specs of the processes to start, one for each local rank, in
  // order.
  [[nodiscard]] virtual Result<std::vector<ProcessSpec>> open_round(int attempt, int restarts) = 0;
  virtual void close_round() = 0;

  // Called when all workers are being restarted.
  virtual void restarting(const event::RestartDecided& restart) = 0;
};

class LocalRounds final : public RoundSource {
 public:
  LocalRounds(RoundUser& user, LocalRoundsSite& site, RestartLimits limits)
      : user_(user), site_(site), limits_(limits), policy_(limits) {}

  [[nodiscard]] int restarts() const { return policy_.restarts(); }

  void await_round(int attempt) override {
    decided_ = false;
    auto specs = site_.open_round(attempt, policy_.restarts());
    if (!specs) {
      RoundClosed closed;
      closed.outcome = Outcome::not_started;
      closed.error = specs.error();
      user_.handle(closed);
      return;
    }
    const int nproc = static_cast<int>(specs->size());
    const int rank_first = specs->empty() ? 0 : specs->front().rank;
    user_.run_round({nproc, rank_first, std::move(specs)});
  }

  // Makes one decision per attempt, based on the attempt's root cause.
  void report_failure(const WorkerFailure& failure) override {
    if (decided_ || failure.after_stop) {
      return;
    }
    decided_ = true;
    const RestartDecision decision = policy_.decide(failed_message(failure));
    MUSTER_CHECK(policy_.restarts() <= limits_.max_restarts);
    if (decision.restart) {
      event::RestartDecided restart{failure.rank, failure.local_rank, failure.pid};
      restart.restart = policy_.restarts();
      restart.restarts_left = limits_.max_restarts - policy_.restarts();
      restart.text = "rank " + std::to_string(failure.rank) + " (pid " +
                     std::to_string(failure.pid) + ") " + describe_end(failure) +
                     "; restarting all workers: " + decision.reason;
      site_.restarting(restart);
      return;
    }
    RoundClosed closed;
    closed.outcome = Outcome::failed;
    closed.verdict = decision.reason;
    user_.handle(closed);
  }

  // There is no other node to wait for.
  void report_success() override { user_.handle(RoundClosed{}); }

  void report_finished() override { user_.handle(RoundClosed{}); }

  void tell_gone() override {}

  void leave_round(const std::string& /*reason*/) override {
    RoundClosed closed;
    closed.outcome = Outcome::interrupted;
    user_.handle(closed);
  }

  void check_lease() override {}

  void close() override { site_.close_round(); }

 private:
  RoundUser& user_;
  LocalRoundsSite& site_;
  RestartLimits limits_;
  RestartPolicy policy_;
  bool decided_ = false;  // a decision was made for this attempt
};

}  // namespace muster
