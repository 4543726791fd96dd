// SPDX-License-Identifier: Apache-2.0
// The workers of a running job of this machine: what stacks and flights look at. Value.
#pragma once

#include "base/error.hpp"
#include "find_jobs.hpp"
#include "options.hpp"

#include <vector>

#include <sys/types.h>

namespace muster {

struct LocalWorker {
  int rank = 0;
  int local_rank = 0;
  pid_t pid = 0;
};

struct LocalJob {
  FoundJob job;
  int world_size = 0;
  std::vector<LocalWorker> workers;  // those that run
};

// The job of --pid, --run-id, or the only one. Errors: those of find_job; not_found (no workers).
[[nodiscard]] Result<LocalJob> find_local_job(const ControlOptions& options);

// Only the workers of these ranks; all where there are none. Error: not_found.
[[nodiscard]] Result<void> keep_ranks(LocalJob& job, const std::vector<int>& ranks);

}  // namespace muster
