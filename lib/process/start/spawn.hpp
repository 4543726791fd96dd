// SPDX-License-Identifier: Apache-2.0
// spawn_process: the only exec in the project. The child shares our memory until exec (CLONE_VM and
// CLONE_VFORK). The cost thus does not depend on the size of our memory, and errors are returned
// immediately. Called by LinuxRunner on the loop's thread. The calling thread must outlive the
// child.
#pragma once

#include "base/error.hpp"
#include "process/start/inherited_state.hpp"
#include "process/values/process_spec.hpp"

#include <sys/types.h>

namespace muster {

// Descriptors to use as the child's descriptors 0, 1 and 2; -1 if the child inherits ours. None of
// the given descriptors may be 0, 1 or 2.
struct ChildStreams {
  int in = -1;
  int out = -1;
  int err = -1;
};

// traceable: our other children may read the child's memory and stacks. Errors: not_found (no such
// program), not_possible (the program cannot be run), system.
[[nodiscard]] Result<pid_t> spawn_process(const ProcessSpec& spec,
                                          const ChildStreams& streams,
                                          const InheritedState& inherited,
                                          bool traceable = false);

}  // namespace muster
