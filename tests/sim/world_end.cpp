// SPDX-License-Identifier: Apache-2.0
// What must hold at the end of a simulated job.
#include "sim/world.hpp"

#include <chrono>

namespace muster::sim {
namespace {

constexpr Duration kPromisedBeyondGrace = std::chrono::seconds(5);

}  // namespace

void World::check_end() {
  const JobResult& result = report_.result;
  if (runner_->alive() != 0 && result.survivors.empty() && result.outcome != Outcome::not_started) {
    complain("unreported processes are still running");
  }
  const int regroups = options_.regroups + (options_.shared ? options_.fences : 0);
  if (attempts_ > options_.max_restarts + 1 + regroups) {
    complain("more attempts than restarts allow");
  }
  const int code = exit_code_of(result);
  if ((result.outcome == Outcome::succeeded && !result.preemption) != (code == 0)) {
    complain("exit code and success are inconsistent");
  }
  if (is_preempted(result) != (code == kPreemptedCode)) {
    complain("exit code and preemption are inconsistent");
  }
  if (result.preemption && starts_at_notice_ && supervisor_->starts() != *starts_at_notice_) {
    complain("workers were started after a notice of preemption");
  }
  if (result.outcome == Outcome::succeeded && !result.failures.empty()) {
    complain("success with failures");
  }
  const bool is_interrupted = result.outcome == Outcome::interrupted && !is_preempted(result);
  if (is_interrupted && !stop_asked_) {
    complain("interrupted without a stop request");
  }
  if (is_preempted(result) && !options_.shared &&
      scheduler_.now() > notice_at_ + options_.grace + kPromisedBeyondGrace) {
    complain("the job ended later than 5 s after the deadline of its preemption");
  }
  // In a multi-node job, the other nodes release this one when its workers have exited.
  const Duration promised = kPromisedBeyondGrace + (options_.shared ? kLeaveTimeout : Duration{});
  if (is_interrupted && stop_asked_ &&
      scheduler_.now() > *stop_asked_ + options_.grace + promised) {
    complain("the job ended later than grace + 5 s after the stop request");
  }
  if (runner_->helpers_killed_early() != 0 && options_.fences == 0) {
    complain("a helper was killed before it could exit");
  }
  if (runner_->managers_hurried() != 0 && !stop_asked_ && !options_.guard_dies &&
      options_.fences == 0) {
    complain("a torch_shm_manager was asked to stop before it could remove shared memory");
  }
  if (runner_->daemons_hurried() != 0 && !stop_asked_ && !options_.guard_dies) {
    complain("a daemon was asked to stop before it could exit");
  }
  if (!result.overdue.empty() && options_.grace == Duration::zero()) {
    complain("overdue without a grace period");
  }
}

}  // namespace muster::sim
