// SPDX-License-Identifier: Apache-2.0
// LocalRounds: the round source of a single-node job. It opens a round as soon as one is requested.
// After a failure, the restart policy decides whether there is another round. Used by the agent,
// the simulator and the supervisor's tests; value-like except for its references.
#pragma once

#include "agent/events/job_event.hpp"
#include "agent/supervisor/round_source.hpp"
#include "base/check.hpp"
#include "base/plural.hpp"
#include "rendezvous/round/repeated_mends.hpp"
#include "rendezvous/round/restart_policy.hpp"

#include <cstdint>
#include <optional>
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
  [[nodiscard]] virtual Result<std::vector<ProcessSpec>> open_round(int attempt) = 0;
  virtual void close_round() = 0;

  // Begins the next epoch of the round. Returns the processes that replace these workers.
  [[nodiscard]] virtual Result<MendToRun> open_mend(const std::vector<int>& local_ranks) = 0;

  // Called when workers are being restarted: all of them, or those that restart.replaced lists.
  virtual void restarting(const event::RestartDecided& restart) = 0;
};

class LocalRounds final : public RoundSource {
 public:
  LocalRounds(RoundUser& user, LocalRoundsSite& site, RestartLimits limits)
      : user_(user), site_(site), limits_(limits), policy_(limits) {}

  [[nodiscard]] int restarts() const { return policy_.restarts(); }

  void await_round(int attempt) override {
    decided_ = false;
    repeats_ = {};
    auto specs = site_.open_round(attempt);
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
    if (const auto reason = decide(failure)) {
      tell_restart(failure, "restarting all workers: " + *reason, {});
    }
  }

  // A mend counts as a restart. It ends in a restart of all workers if mends do not help.
  void ask_mend(const AskMend& ask) override {
    const WorkerFailure& cause = ask.cause;
    const std::string why = repeats_.note(cause.rank, cause.out_of_memory, ask.step);
    if (!why.empty()) {
      user_.handle(MendRefused{ask.number, why});
      return;
    }
    const auto reason = decide(ask.cause);
    if (!reason) {
      return;
    }
    auto mend = site_.open_mend(ask.local_ranks);
    if (!mend) {
      decided_ = true;  // this restart is used for all workers
      tell_restart(ask.cause, "restarting all workers: " + *reason, {});
      user_.handle(MendRefused{ask.number, mend.error().message});
      return;
    }
    std::vector<int> ranks;
    for (const ProcessSpec& spec : mend->specs) {
      ranks.push_back(spec.rank);
    }
    tell_restart(ask.cause, "replacing " + name_ranks(ranks) + ": " + *reason, ranks);
    mend->number = ask.number;
    mend->last = policy_.restarts() == limits_.max_restarts;
    user_.run_mend(std::move(*mend));
  }

  // There is no other node that must know.
  void tell_ready(std::uint64_t /*epoch*/) override {}

  // The restart that the mend was granted is used for all workers.
  void end_mend(const std::string& /*reason*/) override {}

  // There is no other node to wait for.
  void report_success() override { user_.handle(RoundClosed{}); }

  void report_finished() override { user_.handle(RoundClosed{}); }

  void tell_gone() override {}

  void leave_round(const LeaveRound& /*asked*/) override {
    RoundClosed closed;
    closed.outcome = Outcome::interrupted;
    user_.handle(closed);
  }

  void check_lease() override {}

  void close() override { site_.close_round(); }

 private:
  // Why the job restarts; if it does not, ends it.
  [[nodiscard]] std::optional<std::string> decide(const WorkerFailure& failure) {
    const RestartDecision decision = failure.preempted
                                         ? RestartDecision{false, std::string(kPreemptedVerdict)}
                                         : policy_.decide(failed_message(failure));
    MUSTER_CHECK(policy_.restarts() <= limits_.max_restarts);
    if (decision.restart) {
      return decision.reason;
    }
    RoundClosed closed;
    closed.outcome = Outcome::failed;
    closed.verdict = failure.no_restart ? failure.judgement->text : decision.reason;
    user_.handle(closed);
    return std::nullopt;
  }

  void tell_restart(const WorkerFailure& failure,
                    const std::string& what,
                    std::vector<int> replaced) {
    event::RestartDecided restart{failure.rank, failure.local_rank, failure.pid};
    restart.restart = policy_.restarts();
    restart.restarts_left = limits_.max_restarts - policy_.restarts();
    restart.text = "rank " + std::to_string(failure.rank) + " (pid " + std::to_string(failure.pid) +
                   ") " + describe_end(failure) + "; " + what;
    restart.replaced = std::move(replaced);
    site_.restarting(restart);
  }

  RoundUser& user_;
  LocalRoundsSite& site_;
  RestartLimits limits_;
  RestartPolicy policy_;
  bool decided_ = false;  // a decision was made for this attempt
  RepeatedMends repeats_;
};

}  // namespace muster
