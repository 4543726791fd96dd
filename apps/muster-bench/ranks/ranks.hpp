// SPDX-License-Identifier: Apache-2.0
// What the ranks of bench-ranks do. Each gets its communicator and the arguments of the command
// line, and gives its exit code; rank 0 prints. Called by main after the fork.
#pragma once

#include "apps/muster-bench/ranks/cell.hpp"
#include "collective/communicator.hpp"

#include <string>
#include <vector>

namespace muster::bench {

using Arguments = std::vector<std::string>;

// Says what went wrong on stderr.
[[nodiscard]] bool passed(const collective::Result<void>& done);

// Sums in place: of plain memory, or of memory that the library gave.
[[nodiscard]] int time_sums(collective::Communicator& comm,
                            const Arguments& cells,
                            bool library_owned);

// The yardstick: each rank copies so much from one of its buffers to another, all at once.
[[nodiscard]] int time_copies(collective::Communicator& comm, const Arguments& cells);

// The yardstick for TCP: as many bytes to the next rank, and from the one before, as a ring's sum
// sends over the wire: 2(n−1)/n of the cell's.
[[nodiscard]] int time_bare_tcp(collective::Communicator& comm, const Arguments& cells);

// How much of the communication GradientSync hides behind a backward pass twice as long: one that
// computes on all processors, and one that a device performs (nobody uses a processor).
[[nodiscard]] int time_overlap(collective::Communicator& comm);

// Sums until a rank is gone; the last one holds so many MiB. Notes go to `reports`: "up", then the
// time of the error.
[[nodiscard]] int sum_until_error(collective::Communicator& comm, std::size_t mib, int reports);

}  // namespace muster::bench
