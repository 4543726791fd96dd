// SPDX-License-Identifier: Apache-2.0
// Inspects the workers of a running job once, as --hang-timeout does when it hangs (lib/hang). Does
// not pause any process for longer than a few milliseconds. Blocking; stateless.
#pragma once

#include "hang/evidence.hpp"
#include "local_job.hpp"

namespace muster {

[[nodiscard]] hang::Evidence inspect(const LocalJob& job);

// Returns only the operations from PyTorch's flight recorders.
[[nodiscard]] hang::Evidence torch_operations(const LocalJob& job);

}  // namespace muster
