// SPDX-License-Identifier: Apache-2.0
// Waits for one descriptor until a deadline, for code that may block: the store's client, tools,
// the start of collectives. Signals do not interrupt it. Stateless.
#pragma once

#include "base/time.hpp"

namespace muster {

// Milliseconds for poll, rounded up so that it does not wake early and spin.
[[nodiscard]] int poll_timeout(TimePoint deadline);

// True if the descriptor is ready for `events` (POLLIN, POLLOUT), or broken, before the deadline.
[[nodiscard]] bool wait_ready(int fd, short events, TimePoint deadline);

}  // namespace muster
