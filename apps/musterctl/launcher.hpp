// SPDX-License-Identifier: Apache-2.0
// Ends the launcher of a job of this machine, for stop and drain. Stateless.
#pragma once

#include "base/error.hpp"
#include "find_jobs.hpp"
#include "options.hpp"

namespace muster {

// SIGTERM, as if the user had sent it; then waits until it has ended. Errors: not_possible (it is
// not the launcher that it claims to be, or not seen from here), system, timed_out.
[[nodiscard]] Result<void> end_launcher(const FoundJob& job, const ControlOptions& options);

}  // namespace muster
