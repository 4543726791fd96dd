// SPDX-License-Identifier: Apache-2.0
// The account of the job's time in JobStatus. For fold.cpp and the code that shows the account.
// Pure.
#pragma once

#include "status/job_status.hpp"
#include "status/json.hpp"

#include <string_view>

namespace muster {

// Call after the event has changed the rest of the status.
void account_event(JobStatus& status, std::string_view event, const Json& json);

[[nodiscard]] Micros micros_of(double unix_seconds);

// What the time until `now` was used for.
[[nodiscard]] TimeSpent spent_until(const JobStatus& status, double now);

// The object `account` of /v1/status and of musterctl report.
[[nodiscard]] Json account_json(const TimeSpent& spent);

}  // namespace muster
