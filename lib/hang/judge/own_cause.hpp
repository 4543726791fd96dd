// SPDX-License-Identifier: Apache-2.0
// own_cause: what one rank is doing while nothing happens, judged in isolation from its processes
// and stacks only. Used by judge. Pure.
#pragma once

#include "hang/evidence.hpp"

namespace muster::hang {

[[nodiscard]] OwnCause own_cause(const RankEvidence& rank);

}  // namespace muster::hang
