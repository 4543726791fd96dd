// SPDX-License-Identifier: Apache-2.0
// Stops the launcher of a job on this host, for stop and drain. Stateless.
#pragma once

#include "base/error.hpp"
#include "find_jobs.hpp"
#include "options.hpp"

namespace muster {

// Sends SIGTERM, as the user could, and waits for the exit. Errors: not_possible (the process is
// not the launcher of the job, or is not visible from here), system, timed_out.
[[nodiscard]] Result<void> end_launcher(const FoundJob& job, const ControlOptions& options);

}  // namespace muster
