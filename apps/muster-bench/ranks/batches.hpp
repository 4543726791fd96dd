// SPDX-License-Identifier: Apache-2.0
// What all timings of a rank have in common: batches that begin after a barrier, the slowest rank's
// time, memory by the page. One thread.
#pragma once

#include "apps/muster-bench/ranks/ranks.hpp"

#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>

namespace muster::bench {

struct FreeDeleter {
  void operator()(void* memory) const { std::free(memory); }
};

using Pages = std::unique_ptr<void, FreeDeleter>;

[[nodiscard]] Pages pages(std::size_t bytes);

// Microseconds of one of `count` repetitions, after a barrier; none after an error.
[[nodiscard]] std::optional<double> timed(collective::Communicator& comm,
                                          int count,
                                          const std::function<bool()>& once);

// Of an operation that is no all_reduce, from one buffer to another; what came out is compared.
[[nodiscard]] std::optional<double> batch_of_others(collective::Communicator& comm,
                                                    const TimedCell& cell);

// Runs the batches of each cell, a short one first to warm up, and has rank 0 print the median of
// the slowest rank's. Gives the exit code.
[[nodiscard]] int each_cell(collective::Communicator& comm,
                            const Arguments& cells,
                            const std::function<std::optional<double>(const TimedCell&)>& batch);

}  // namespace muster::bench
