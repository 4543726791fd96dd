// SPDX-License-Identifier: Apache-2.0
// Hints: failures that are known to be something else than they look like, and what to do about
// them. Pure; used by the report.
#pragma once

#include "agent/failures/failure.hpp"

#include <string>

namespace muster {

// One line without a line break; empty if nothing is known about this failure.
[[nodiscard]] std::string hint_for(const WorkerFailure& failure);

}  // namespace muster
