// SPDX-License-Identifier: Apache-2.0
// The speed of one CPU and of the memory. Other programs on the host hardly change the result,
// because it is based on the CPU time of this thread and on the best of several short pieces. Part
// of measure_node.hpp. No state.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"

namespace muster::check {

// Steps of a fixed integer computation per second.
[[nodiscard]] double measure_cpu(Duration limit);

// Bytes read and written per second by copying. Error: system, if there is not enough memory.
[[nodiscard]] Result<double> measure_memory(Duration limit);

}  // namespace muster::check
