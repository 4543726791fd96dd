// SPDX-License-Identifier: Apache-2.0
// The workers of a running job on this host, which stacks and flights inspect. Value.
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
  std::vector<LocalWorker> workers;  // running workers only
};

// The job selected by --pid or --run-id, or the only one. Errors: those of find_job; not_found
// (the job has no workers here).
[[nodiscard]] Result<LocalJob> find_local_job(const ControlOptions& options);

// Keeps only the workers with these ranks; an empty list keeps all. Error: not_found.
[[nodiscard]] Result<void> keep_ranks(LocalJob& job, const std::vector<int>& ranks);

// The workers of the job with options.ranks; all if it is empty. Errors: those of find_local_job;
// not_found, which names the host if a rank runs elsewhere.
[[nodiscard]] Result<LocalJob> find_ranks(const ControlOptions& options);

}  // namespace muster
