// SPDX-License-Identifier: Apache-2.0
// The inherited process state that muster changes for itself and restores for the workers: signals
// and the soft descriptor limit. Written once by prepare_process, read by spawn and guard. Value.
#pragma once

#include <csignal>
#include <optional>

#include <sys/resource.h>

namespace muster {

struct InheritedState {
  sigset_t mask{};                    // signals that were blocked at startup
  sigset_t ignored{};                 // ignored at startup; stay ignored for muster and the workers
  std::optional<rlimit> descriptors;  // set if we raised the soft limit
};

// Must be the first statement of main. Blocks the signals that we handle, ignores SIGPIPE and
// SIGXFSZ, opens /dev/null if standard input, output or error is closed, and raises the soft
// descriptor limit to the hard limit. Saves the original state, which spawn restores for the
// workers. Signals that were ignored at startup (for example by nohup) stay ignored.
void prepare_process();

// Returns the current state if prepare_process was not called yet.
[[nodiscard]] const InheritedState& inherited_state();

// Undoes prepare_process. Call before exec replaces this process with another program. Restores the
// default action of SIGPIPE and SIGXFSZ unless they were ignored.
void restore_inherited_state();

}  // namespace muster
