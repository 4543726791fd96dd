// SPDX-License-Identifier: Apache-2.0
// Hints for failures whose symptoms are known to be misleading, with advice on how to fix them.
// Pure; used by the report.
#pragma once

#include "agent/failures/failure.hpp"

#include <string>

namespace muster {

// A single line without a line break; empty if no hint applies to this failure.
[[nodiscard]] std::string hint_for(const WorkerFailure& failure);

}  // namespace muster
