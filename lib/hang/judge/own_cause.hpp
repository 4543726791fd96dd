// SPDX-License-Identifier: Apache-2.0
// own_cause: determines what one rank is doing, using only its own processes and stacks. Used by
// judge. Pure.
#pragma once

#include "hang/evidence.hpp"

namespace muster::hang {

[[nodiscard]] OwnCause own_cause(const RankEvidence& rank);

}  // namespace muster::hang
