// SPDX-License-Identifier: Apache-2.0
// The job as a picture: a row for each node, and for each worker of the node that tells of it; bars
// are rounds. One SVG that needs nothing else and follows the reader's light or dark colours.
// Pure.
#pragma once

#include "status/job_status.hpp"

#include <string>

namespace muster {

inline constexpr std::size_t kTimelineRowsMax = 256;

// `now`: Unix time, where the job still runs.
[[nodiscard]] std::string timeline_svg(const JobStatus& status, double now);

}  // namespace muster
