// SPDX-License-Identifier: Apache-2.0
// What a job of many nodes costs without faults: forms, loses a node, forms again. Figures on one
// line: muster-bench and the README read them.
#pragma once

#include <cstdint>

namespace muster::sim {

// Exit code.
[[nodiscard]] int measure_scale(std::uint32_t nodes);

}  // namespace muster::sim
