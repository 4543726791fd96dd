// SPDX-License-Identifier: Apache-2.0
// Draws the job as a timeline. Each node has a row, and so does each worker on the node that draws
// the timeline. Bars are rounds. The result is a self-contained SVG that follows the reader's light
// or dark colour scheme. Pure.
#pragma once

#include "status/job_status.hpp"

#include <string>

namespace muster {

inline constexpr std::size_t kTimelineRowsMax = 256;

// `now` is Unix time. The timeline ends at `now` if the job is still running.
[[nodiscard]] std::string timeline_svg(const JobStatus& status, double now);

}  // namespace muster
