// SPDX-License-Identifier: Apache-2.0
// Formats the status as JSON for /v1/status and "musterctl status --json". README.md documents the
// fields. Pure.
#pragma once

#include "status/job_status.hpp"

#include <string>

namespace muster {

// The format version of status_json. Adding fields does not change it.
inline constexpr int kStatusVersion = 1;

inline constexpr std::size_t kRoundsShownMax = 50;
inline constexpr std::size_t kNamesShownMax = 16;  // nodes that joined or left in a round

// Returns a single JSON object on one line. `now` is Unix time.
[[nodiscard]] std::string status_json(const JobStatus& status, double now);

}  // namespace muster
