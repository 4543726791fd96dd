// SPDX-License-Identifier: Apache-2.0
// The cost of a large job without faults: forms a round, loses a node, forms a round again; in
// another job, replaces a rank while the others run. Prints the figures on one line for
// muster-bench and the README.
#pragma once

#include <cstdint>

namespace muster::sim {

// Returns the exit code.
[[nodiscard]] int measure_scale(std::uint32_t nodes);

}  // namespace muster::sim
