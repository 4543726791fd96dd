// SPDX-License-Identifier: Apache-2.0
// The job as a timeline: a row for each node, and for each worker on the node that renders it; bars
// are rounds. A self-contained SVG that follows the reader's light or dark colour scheme. Pure.
#pragma once

#include "status/job_status.hpp"

#include <string>

namespace muster {

inline constexpr std::size_t kTimelineRowsMax = 256;

// `now`: Unix time, used if the job is still running.
[[nodiscard]] std::string timeline_svg(const JobStatus& status, double now);

}  // namespace muster
