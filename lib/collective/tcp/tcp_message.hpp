// SPDX-License-Identifier: Apache-2.0
// One message between two ranks on their message lane: a head with count and type, then the bytes.
#pragma once

#include "collective/tcp/mesh.hpp"
#include "collective/transport/host_transport.hpp"

#include <memory>

namespace muster::collective {

// Of a send or recv request; the mesh outlives it.
[[nodiscard]] std::unique_ptr<Transfer> make_message(Mesh& mesh, const Request& request);

}  // namespace muster::collective
