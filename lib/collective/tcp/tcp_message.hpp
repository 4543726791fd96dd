// SPDX-License-Identifier: Apache-2.0
// A message between two ranks on their message lane: a header with count and type, then the data.
#pragma once

#include "collective/tcp/mesh.hpp"
#include "collective/transport/host_transport.hpp"

#include <memory>

namespace muster::collective {

// Creates a transfer for a send or recv request. The mesh must outlive it.
[[nodiscard]] std::unique_ptr<Transfer> make_message(Mesh& mesh, const Request& request);

}  // namespace muster::collective
