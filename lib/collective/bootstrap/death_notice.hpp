// SPDX-License-Identifier: Apache-2.0
// Under muster: lets the launcher see at once that this process dies, before the kernel has freed
// its memory, so that it stops the other workers and tells the other nodes
// (base/liveness_page.hpp). Elsewhere nothing happens. Any thread.
#pragma once

#include <sys/types.h>

namespace muster::collective {

// Once a process, later calls do nothing. A thread that sleeps until the end of the process holds
// the word: communicators, whose threads hold words for the other ranks, may end before.
void request_death_notice();

// The worker of this node that the launcher saw die first; it ends the others only then. 0: none
// has, or there is no launcher that tells.
[[nodiscard]] pid_t first_dead_worker();

}  // namespace muster::collective
