// SPDX-License-Identifier: Apache-2.0
// judge: turns evidence into a verdict. It first judges each rank separately (own_cause.hpp), then
// determines which rank waits for which. Pure.
#pragma once

#include "hang/evidence.hpp"
#include "hang/verdict.hpp"

namespace muster::hang {

[[nodiscard]] Verdict judge(const Evidence& evidence);

}  // namespace muster::hang
