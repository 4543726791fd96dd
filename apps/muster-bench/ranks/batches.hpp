// SPDX-License-Identifier: Apache-2.0
// Code shared by all timings in a rank: batches that start after a barrier, the slowest rank's
// time, page-aligned memory. Single-threaded.
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

// The average time of `count` repetitions after a barrier, in microseconds. Empty after an error.
[[nodiscard]] std::optional<double> timed(collective::Communicator& comm,
                                          int count,
                                          const std::function<bool()>& once);

// Times an operation other than all_reduce, from one buffer to another, and checks the result.
[[nodiscard]] std::optional<double> batch_of_others(collective::Communicator& comm,
                                                    const TimedCell& cell);

// Runs the batches of each cell after a short warm-up. Rank 0 prints the median over the batches
// of the slowest rank's time. Returns the exit code.
[[nodiscard]] int each_cell(collective::Communicator& comm,
                            const Arguments& cells,
                            const std::function<std::optional<double>(const TimedCell&)>& batch);

}  // namespace muster::bench
