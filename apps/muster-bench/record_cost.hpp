// SPDX-License-Identifier: Apache-2.0
// The cost of recording a round on a node (rendezvous/round/README.md): encoding, write, fsync and
// rename. Called by the tool `record`.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace muster::bench {

// The duration of each write. `nodes`: number of members of the round. The folder should be on a
// disk.
[[nodiscard]] Result<std::vector<Duration>> measure_record(const std::string& folder,
                                                           std::size_t nodes,
                                                           std::size_t writes);

}  // namespace muster::bench
