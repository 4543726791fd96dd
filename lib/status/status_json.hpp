// SPDX-License-Identifier: Apache-2.0
// The status as JSON, as served by /v1/status and printed by "musterctl status --json". README.md
// documents its fields. Pure.
#pragma once

#include "status/job_status.hpp"

#include <string>

namespace muster {

// The format version of status_json; fields may be added without a new version.
inline constexpr int kStatusVersion = 1;

inline constexpr std::size_t kRoundsShownMax = 50;
inline constexpr std::size_t kNamesShownMax = 16;  // of nodes that joined or left in a round

// A single object on one line. `now`: Unix time.
[[nodiscard]] std::string status_json(const JobStatus& status, double now);

}  // namespace muster
