// SPDX-License-Identifier: Apache-2.0
// The back end for buffers on GPUs, as the communicator opens it. In a build without NCCL it says
// that it is not there.
#pragma once

#include "collective/transport/transport.hpp"

#include <memory>

namespace muster::collective {

// Loads NCCL and CUDA if they are there and starts a communicator among all ranks, which
// all call it at the same point. Error: unsupported, with what is missing.
[[nodiscard]] Result<std::unique_ptr<Transport>> make_nccl_transport(
    const TransportContext& context);

}  // namespace muster::collective
