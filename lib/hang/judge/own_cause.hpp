// SPDX-License-Identifier: Apache-2.0
// What one rank does while nothing happens, judged by itself: its processes and stacks only. Used
// by judge. Pure.
#pragma once

#include "hang/evidence.hpp"

namespace muster::hang {

[[nodiscard]] OwnCause own_cause(const RankEvidence& rank);

}  // namespace muster::hang
