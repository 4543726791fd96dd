// SPDX-License-Identifier: Apache-2.0
// The tasks of the ranks in bench-ranks. Each task gets its communicator and the command line
// arguments and returns the exit code; rank 0 prints. Called by main after the fork.
#pragma once

#include "apps/muster-bench/ranks/cell.hpp"
#include "collective/communicator.hpp"

#include <string>
#include <vector>

namespace muster::bench {

using Arguments = std::vector<std::string>;

// Returns true on success. Otherwise prints the error to stderr.
[[nodiscard]] bool passed(const collective::Result<void>& done);

// In-place sums, in ordinary memory or in memory from the library.
[[nodiscard]] int time_sums(collective::Communicator& comm,
                            const Arguments& cells,
                            bool library_owned);

// The baseline for shared memory: all ranks concurrently copy from one of their buffers to
// another.
[[nodiscard]] int time_copies(collective::Communicator& comm, const Arguments& cells);

// The baseline for TCP: each rank sends to the next rank and receives from the previous one. It
// transfers as many bytes as a ring all-reduce, that is, 2(n−1)/n of the cell's bytes.
[[nodiscard]] int time_bare_tcp(collective::Communicator& comm, const Arguments& cells);

// How much communication GradientSync hides behind a backward pass that takes twice as long as the
// communication. One backward pass computes on all CPUs; the other runs on a device and leaves the
// CPUs idle.
[[nodiscard]] int time_overlap(collective::Communicator& comm);

// Sums until a rank dies. The last rank allocates `mib` MiB. Writes "up" to `reports`, then the
// time of the error.
[[nodiscard]] int sum_until_error(collective::Communicator& comm, std::size_t mib, int reports);

}  // namespace muster::bench
