// SPDX-License-Identifier: Apache-2.0
// Looks at the workers of a running job as --hang-timeout does when they hang (lib/hang), once and
// on demand. Nothing is stopped for longer than some milliseconds. Blocks; stateless.
#pragma once

#include "hang/evidence.hpp"
#include "local_job.hpp"

namespace muster {

[[nodiscard]] hang::Evidence inspect(const LocalJob& job);

// What PyTorch's flight recorders tell of operations, and nothing else.
[[nodiscard]] hang::Evidence torch_operations(const LocalJob& job);

}  // namespace muster
