// SPDX-License-Identifier: Apache-2.0
// open_child_signals: reports exits of child processes. Used by LinuxRunner on the loop's thread.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"

namespace muster {

// A non-blocking signalfd for SIGCHLD, which this call blocks. Error: system.
[[nodiscard]] Result<UniqueFd> open_child_signals();

}  // namespace muster
