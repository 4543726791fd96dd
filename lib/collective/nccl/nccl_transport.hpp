// SPDX-License-Identifier: Apache-2.0
// Opens the GPU backend for the communicator. Builds without NCCL return an error.
#pragma once

#include "collective/transport/transport.hpp"

#include <memory>

namespace muster::collective {

// Loads NCCL and CUDA and starts a communicator among all ranks. All ranks must call this function
// at the same point. Error: unsupported; the text names the missing part.
[[nodiscard]] Result<std::unique_ptr<Transport>> make_nccl_transport(
    const TransportContext& context);

}  // namespace muster::collective
