// SPDX-License-Identifier: Apache-2.0
// Selects a job on this host by --pid and --run-id. Stateless.
#pragma once

#include "base/error.hpp"
#include "find_jobs.hpp"
#include "options.hpp"

#include <string>
#include <vector>

namespace muster {

struct ChosenJobs {
  std::vector<FoundJob> answered;
  std::vector<FoundJob> silent;  // no answer, but may match; with --run-id, all silent jobs
};

[[nodiscard]] ChosenJobs chosen_jobs(const ControlOptions& options);

// Example: "no answer within 1 s from the launcher with pid 4242 …". Code: unreachable.
[[nodiscard]] Error silent_error(const std::vector<FoundJob>& silent,
                                 const ControlOptions& options);

// Prints silent_error() as a warning. Does nothing if `silent` is empty.
void warn_of_silent(const std::vector<FoundJob>& silent, const ControlOptions& options);

// The only matching job, which may be silent. Errors: not_found, usage (several jobs match),
// unreachable (only silent jobs could have this --run-id).
[[nodiscard]] Result<FoundJob> choose_job(ChosenJobs jobs, const ControlOptions& options);

// The only matching job; it must have answered. Errors: those of choose_job; unreachable.
[[nodiscard]] Result<FoundJob> find_job(const ControlOptions& options);

// The job at --endpoint if given, otherwise the job that find_job returns.
[[nodiscard]] Result<JobSource> find_source(const ControlOptions& options);

// One line, such as "pid 4242  python3, job default, running".
[[nodiscard]] std::string describe(const FoundJob& job);

}  // namespace muster
