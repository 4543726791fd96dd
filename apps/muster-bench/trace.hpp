// SPDX-License-Identifier: Apache-2.0
// What the workers of the restart block noted: "start ATTEMPT RANK NANOSECONDS" and "crash …", by
// the monotonic clock that all processes of a machine share. Pure.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace muster::bench {

// For each crash the milliseconds until the last of `workers` workers of the next attempt started.
// A crash before all workers of its own attempt ran, or without a complete next attempt, does not
// count.
[[nodiscard]] std::vector<double> recoveries_of(std::string_view notes, std::size_t workers);

}  // namespace muster::bench
