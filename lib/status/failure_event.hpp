// SPDX-License-Identifier: Apache-2.0
// Reads a failure from an event: worker_failed, or the root cause in job_ended. Used by fold. Pure.
#pragma once

#include "status/job_status.hpp"
#include "status/json.hpp"

#include <cstddef>
#include <string>

namespace muster {

inline constexpr std::size_t kLastLineBytesMax = 300;

// The round is not set.
[[nodiscard]] FailureStatus failure_of(const Json& json, double time, std::string node);

}  // namespace muster
