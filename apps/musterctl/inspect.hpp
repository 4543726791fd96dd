// SPDX-License-Identifier: Apache-2.0
// Inspects the workers of a running job once, as --hang-timeout does when it hangs (lib/hang). Does
// not pause any process for longer than a few milliseconds. Blocking; stateless.
#pragma once

#include "hang/evidence.hpp"
#include "local_job.hpp"

namespace muster {

// With Yama, a process may trace only its descendants, unless it is root. A job's workers are not
// descendants of musterctl.
[[nodiscard]] bool may_trace();

[[nodiscard]] hang::Evidence inspect(const LocalJob& job);

// Returns only the operations from PyTorch's flight recorders.
[[nodiscard]] hang::Evidence torch_operations(const LocalJob& job);

}  // namespace muster
