// SPDX-License-Identifier: Apache-2.0
#include "agent/failures/job_result.hpp"

#include "base/stream_writer.hpp"

#include <csignal>

namespace muster {
namespace {

constexpr int kUsage = 2;
constexpr int kUnreachable = 69;
constexpr int kInternal = 70;

}  // namespace

int exit_code_of(const WorkerFailure& failure) {
  if (failure.spawn_error) {
    return exit_code_of(*failure.spawn_error);
  }
  if (failure.ends_job) {
    return kHungCode;
  }
  return failure.status.shell_code();
}

int exit_code_of(const Error& error) {
  switch (error.code) {
    case Errc::usage:
      return kUsage;
    case Errc::not_found:
      return kNotFoundCode;
    case Errc::not_possible:
      return kNotExecutableCode;
    case Errc::unreachable:
    case Errc::timed_out:
      return kUnreachable;
    case Errc::system:
    case Errc::exhausted:
    case Errc::closed:
    case Errc::protocol:
    case Errc::internal:
      return kInternal;
  }
  return kInternal;
}

bool is_preempted(const JobResult& result) {
  const bool left = result.outcome == Outcome::interrupted && result.interrupting_signal == 0;
  return result.preemption && (result.outcome == Outcome::succeeded || left);
}

int exit_code_of(const JobResult& result) {
  if (is_preempted(result)) {
    return kPreemptedCode;
  }
  switch (result.outcome) {
    case Outcome::succeeded:
      return result.output_lost ? kOutputLostCode : 0;
    case Outcome::failed: {
      if (result.close) {
        return result.close->exit_code == 0 ? kInternal : result.close->exit_code;
      }
      const auto root = root_cause(result.failures, result.stop_signal);
      return root ? exit_code_of(result.failures[*root]) : kInternal;
    }
    case Outcome::interrupted:
      return 128 + result.interrupting_signal;
    case Outcome::not_started:
      return result.error ? exit_code_of(*result.error) : kInternal;
    case Outcome::orphaned:
      return 128 + SIGKILL;
    case Outcome::replaced:
      return 0;  // another agent of this launcher continues
  }
  return kInternal;
}

}  // namespace muster
