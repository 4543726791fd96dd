// SPDX-License-Identifier: Apache-2.0
// The status as JSON: what /v1/status answers and "musterctl status --json" prints. README.md
// documents its fields. Pure.
#pragma once

#include "status/job_status.hpp"

#include <string>

namespace muster {

// The version of what status_json writes; fields may be added to it.
inline constexpr int kStatusVersion = 1;

inline constexpr std::size_t kRoundsShownMax = 50;
inline constexpr std::size_t kNamesShownMax = 16;  // of nodes that came or went with a round

// One object on one line. `now`: Unix time.
[[nodiscard]] std::string status_json(const JobStatus& status, double now);

}  // namespace muster
