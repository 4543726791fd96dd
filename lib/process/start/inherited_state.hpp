// SPDX-License-Identifier: Apache-2.0
// What this process was started with and changes for itself, and what its workers must get back:
// signals, and the soft limit of descriptors. Written once by prepare_process, read by spawn and
// guard. Value.
#pragma once

#include <csignal>
#include <optional>

#include <sys/resource.h>

namespace muster {

struct InheritedState {
  sigset_t mask{};     // blocked when we were started
  sigset_t ignored{};  // ignored when we were started: stays so, for us and for the workers
  std::optional<rlimit> descriptors;  // where we have raised the soft limit
};

// The first statement of main. Blocks the signals that we handle, ignores SIGPIPE and SIGXFSZ,
// opens /dev/null where standard input, output or error was closed, and raises the soft limit of
// descriptors to the hard one. Remembers what we were started with, for the workers and for nohup.
void prepare_process();

// Before prepare_process was called: the state of this moment.
[[nodiscard]] const InheritedState& inherited_state();

// Undoes prepare_process, for a program that takes our place by exec. The reader that leaves and
// the file that is too long are signals again where they were.
void restore_inherited_state();

}  // namespace muster
