// SPDX-License-Identifier: Apache-2.0
// JudgedRounds: judges from the failures of this node whether another restart can help, and wraps a
// round source that then receives the judgement with the failure. --on-verdict=stop and
// --no-restart-on act on it. Used by the agent; pure.
#pragma once

#include "agent/events/job_event.hpp"
#include "agent/failures/failure_history.hpp"
#include "agent/rounds/round_filter.hpp"

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace muster {

struct JudgementSettings {
  int workers = 1;              // of this node
  bool stop = false;            // --on-verdict=stop
  std::set<int> no_restart_on;  // exit codes
  bool may_restart = true;      // --max-restarts is not 0
};

class JudgedRounds final : public RoundFilter {
 public:
  JudgedRounds(RoundSource& rounds, const JudgementSettings& settings)
      : RoundFilter(rounds), settings_(settings), history_(settings.no_restart_on) {}

  // Call for each failed worker as soon as its evidence is complete. `kernel_log`: the lines since
  // the last call.
  void note(WorkerFailure& failure, const std::vector<std::string>& kernel_log = {}) {
    if (std::exchange(is_mended_, false)) {
      begin_round();
    }
    for (const std::string& line : kernel_log) {
      history_.note_kernel_log(line);
    }
    // Without restarts, there is no reason to wait for the failures of other workers.
    failure.startup_error = settings_.may_restart && is_startup_error(finding_of(failure));
    history_.note(failure);
  }

  void await_round(int attempt) override {
    begin_round();
    rounds().await_round(attempt);
  }

  void report_failure(const WorkerFailure& failure) override {
    rounds().report_failure(judged(failure));
  }

  // The replacements of a mend may fail like the workers that they replace, so their failures count
  // like those of another round.
  void ask_mend(const AskMend& ask) override {
    AskMend asked = ask;
    asked.cause = judged(ask.cause);
    is_mended_ = true;
    rounds().ask_mend(asked);
  }

  // Adds the judgement to the event of the failure that it is about. Returns a line for the user
  // once workers run again although a restart will not help; else an empty text.
  [[nodiscard]] std::string complete(event::What& what) {
    if (auto* const failure = std::get_if<WorkerFailure>(&what)) {
      add_judgement(*failure);
    }
    return std::holds_alternative<event::WorkerStarted>(what) ? std::exchange(doubt_, {})
                                                              : std::string();
  }

  // Adds the judgement to the result of the job.
  [[nodiscard]] JobResult complete(JobResult result) const {
    for (WorkerFailure& failure : result.failures) {
      add_judgement(failure);
    }
    return result;
  }

 private:
  void begin_round() {
    history_.begin_round(settings_.workers);
    is_judged_ = false;
    is_mended_ = false;
  }

  void add_judgement(WorkerFailure& failure) const {
    if (about_ && failure.pid == about_->pid && failure.rank == about_->rank) {
      failure.judgement = about_->judgement;
      failure.no_restart = about_->no_restart;
    }
  }

  // The first failure that is reported decides about the round.
  [[nodiscard]] WorkerFailure judged(WorkerFailure failure) {
    if (failure.after_stop || failure.preempted || std::exchange(is_judged_, true)) {
      add_judgement(failure);  // a mend was refused
      return failure;
    }
    const Judgement judgement = history_.judge();
    const bool helps_not = judgement.advice == Advice::stop || judgement.advice == Advice::requeue;
    failure.judgement = judgement;
    failure.no_restart = judgement.named || (settings_.stop && helps_not);
    doubt_ = judgement.text;
    about_ = failure;
    return failure;
  }

  JudgementSettings settings_;
  FailureHistory history_;
  bool is_judged_ = false;              // the current round was judged
  bool is_mended_ = false;              // the next failure belongs to another round
  std::optional<WorkerFailure> about_;  // the last failure that was judged
  std::string doubt_;                   // why the restart that follows will not help
};

}  // namespace muster
