// SPDX-License-Identifier: Apache-2.0
// The inherited process state that we change for ourselves and restore for the workers: signals and
// the soft descriptor limit. Written once by prepare_process, read by spawn and guard.
// Value.
#pragma once

#include <csignal>
#include <optional>

#include <sys/resource.h>

namespace muster {

struct InheritedState {
  sigset_t mask{};                    // blocked at startup
  sigset_t ignored{};                 // ignored at startup; stays ignored, for us and the workers
  std::optional<rlimit> descriptors;  // set if we raised the soft limit
};

// Must be the first statement of main. Blocks the signals that we handle, ignores SIGPIPE and
// SIGXFSZ, opens /dev/null if standard input, output or error is closed, and raises the soft
// descriptor limit to the hard one. Saves the original state for the workers and for nohup.
void prepare_process();

// Before prepare_process was called, this is the current state.
[[nodiscard]] const InheritedState& inherited_state();

// Undoes prepare_process, for a program that replaces us by exec. SIGPIPE and SIGXFSZ get their
// default action back, unless they were ignored.
void restore_inherited_state();

}  // namespace muster
