// SPDX-License-Identifier: Apache-2.0
// judge: turns evidence into a verdict. Judges each rank in isolation (own_cause.hpp), then follows
// which rank waits for which. Pure.
#pragma once

#include "hang/evidence.hpp"
#include "hang/verdict.hpp"

namespace muster::hang {

[[nodiscard]] Verdict judge(const Evidence& evidence);

}  // namespace muster::hang
