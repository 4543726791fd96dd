// SPDX-License-Identifier: Apache-2.0
// spawn_process: the only exec in the project. The child shares our memory until it execs
// (clone VM and VFORK), so its cost does not depend on our size and its errors are returned at
// once. Called by LinuxRunner on the loop's thread; the calling thread must outlive the child.
#pragma once

#include "base/error.hpp"
#include "process/start/inherited_state.hpp"
#include "process/values/process_spec.hpp"

#include <sys/types.h>

namespace muster {

// Descriptors for the child's 0, 1 and 2; -1: it gets our own. None of them may be 0, 1 or 2.
struct ChildStreams {
  int in = -1;
  int out = -1;
  int err = -1;
};

// traceable: our other children may read its memory and its stacks.
// Errors: not_found (no such program), not_possible (it cannot be run), system.
[[nodiscard]] Result<pid_t> spawn_process(const ProcessSpec& spec,
                                          const ChildStreams& streams,
                                          const InheritedState& inherited,
                                          bool traceable = false);

}  // namespace muster
