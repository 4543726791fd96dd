// SPDX-License-Identifier: Apache-2.0
// Inspects the workers of a running job once, as --hang-timeout does when it hangs (lib/hang). Does
// not pause any process for longer than a few milliseconds. Blocking; stateless.
#pragma once

#include "hang/evidence.hpp"
#include "local_job.hpp"

#include <string>

namespace muster {

// With Yama, a process may trace only its descendants, unless it is root. A job's workers are not
// descendants of musterctl.
[[nodiscard]] bool may_trace();

// Returns the py-spy next to a worker's Python, as the launcher does, or else the py-spy in PATH.
// Root does not run a program that another user chose.
[[nodiscard]] std::string py_spy_for(const LocalJob& job);

[[nodiscard]] hang::Evidence inspect(const LocalJob& job);

// Returns only the operations from PyTorch's flight recorders.
[[nodiscard]] hang::Evidence torch_operations(const LocalJob& job);

}  // namespace muster
