// SPDX-License-Identifier: Apache-2.0
// The measured blocks. Each returns its tables; absent peers and failures are cells that say so.
// Called by main.
#pragma once

#include "apps/muster-bench/peers.hpp"
#include "apps/muster-bench/report.hpp"

#include <vector>

namespace muster::bench {

// 1, 2, 8, 64 × true from start to exit; --help; memory of the launcher with two workers.
[[nodiscard]] std::vector<Table> measure_launch(const Peers& peers, const Effort& effort);

// A worker's death until all workers of the group run again.
[[nodiscard]] std::vector<Table> measure_restart(const Peers& peers, const Effort& effort);

// Many agents on this machine: forming and ending, and whole again after a loss or a gain.
[[nodiscard]] std::vector<Table> measure_nodes(const Peers& peers, const Effort& effort);

// 1,000 and 10,000 followers of one coordinator: join, start, regroup; idle cost.
[[nodiscard]] std::vector<Table> measure_crowds(const Peers& peers, const Effort& effort);

// 64 … 16,384 simulated nodes: messages and processor time for each.
[[nodiscard]] std::vector<Table> measure_scale(const Peers& peers, const Effort& effort);

// Store servers: one request in flight, beside idle connections, pipelined, streamed, storm.
[[nodiscard]] std::vector<Table> measure_store(const Peers& peers, const Effort& effort);

// All-reduce beside MPI, gloo and memcpy; deaths; overlap.
[[nodiscard]] std::vector<Table> measure_collective(const Peers& peers, const Effort& effort);

// Lines of eight ranks to files and console at once.
[[nodiscard]] std::vector<Table> measure_pump(const Peers& peers, const Effort& effort);

}  // namespace muster::bench
