// SPDX-License-Identifier: Apache-2.0
// judge: from evidence to a verdict. Looks at each rank by itself (own_cause.hpp), then follows who
// waits for whom. Pure.
#pragma once

#include "hang/evidence.hpp"
#include "hang/verdict.hpp"

namespace muster::hang {

[[nodiscard]] Verdict judge(const Evidence& evidence);

}  // namespace muster::hang
