// SPDX-License-Identifier: Apache-2.0
// Hints for failures whose symptom is known to be misleading, and what to do about them. Pure; used
// by the report.
#pragma once

#include "agent/failures/failure.hpp"

#include <string>

namespace muster {

// A single line without line break; empty if nothing is known about this failure.
[[nodiscard]] std::string hint_for(const WorkerFailure& failure);

}  // namespace muster
