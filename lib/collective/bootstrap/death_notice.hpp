// SPDX-License-Identifier: Apache-2.0
// Under muster, lets the launcher detect this process's death immediately, before the kernel has
// freed the process's memory. The launcher can then stop the other workers and notify the other
// nodes (base/liveness_page.hpp). Without muster, it does nothing. Any thread may call it.
#pragma once

#include <sys/types.h>

namespace muster::collective {

// Only the first call in a process has an effect. The liveness word is held by a separate thread
// that sleeps until the process exits, because a communicator's own threads exit when the
// communicator is destroyed.
void request_death_notice();

// The pid of the worker on this node whose death the launcher detected first, before it killed the
// others. 0 if no worker has died, or if no launcher reports deaths.
[[nodiscard]] pid_t first_dead_worker();

}  // namespace muster::collective
