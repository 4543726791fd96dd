// SPDX-License-Identifier: Apache-2.0
// Stops the launcher of a job on this host, for stop and drain. Stateless.
#pragma once

#include "base/error.hpp"
#include "find_jobs.hpp"
#include "options.hpp"

namespace muster {

// Sends SIGTERM, like kill(1), and waits for the launcher to exit. Errors: not_possible (the
// process is not the job's launcher, or is not visible from here), system, timed_out.
[[nodiscard]] Result<void> end_launcher(const FoundJob& job, const ControlOptions& options);

}  // namespace muster
