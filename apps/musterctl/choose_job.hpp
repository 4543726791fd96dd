// SPDX-License-Identifier: Apache-2.0
// Which of the jobs on this machine a command is for, by --pid and --run-id. Stateless.
#pragma once

#include "base/error.hpp"
#include "find_jobs.hpp"
#include "options.hpp"

#include <string>
#include <vector>

namespace muster {

struct ChosenJobs {
  std::vector<FoundJob> answered;
  std::vector<FoundJob> silent;  // that may be meant: with --run-id all of them
};

[[nodiscard]] ChosenJobs chosen_jobs(const ControlOptions& options);

// "no answer within 1 s from the launcher with pid 4242 …": unreachable.
[[nodiscard]] Error silent_error(const std::vector<FoundJob>& silent,
                                 const ControlOptions& options);

// As a warning; nothing if none is silent.
void warn_of_silent(const std::vector<FoundJob>& silent, const ControlOptions& options);

// The only one; it may be silent. Errors: not_found, usage (several), unreachable (only silent ones
// may have this --run-id).
[[nodiscard]] Result<FoundJob> choose_job(ChosenJobs jobs, const ControlOptions& options);

// The only one, which answered. Errors: as choose_job; unreachable.
[[nodiscard]] Result<FoundJob> find_job(const ControlOptions& options);

// The one of --endpoint, else as find_job.
[[nodiscard]] Result<JobSource> find_source(const ControlOptions& options);

// "pid 4242  python3, job default, running", in one line.
[[nodiscard]] std::string describe(const FoundJob& job);

}  // namespace muster
