// SPDX-License-Identifier: Apache-2.0
// Waits for one descriptor until a deadline. For code that may block: the store's client, tools,
// the startup of collectives. Signals do not interrupt the wait. Stateless.
#pragma once

#include "base/time.hpp"

namespace muster {

// The timeout in milliseconds for poll, rounded up so that the caller does not wake early and spin.
[[nodiscard]] int poll_timeout(TimePoint deadline);

// True if, before the deadline, the descriptor becomes ready for `events` (POLLIN, POLLOUT) or has
// an error or hangup.
[[nodiscard]] bool wait_ready(int fd, short events, TimePoint deadline);

}  // namespace muster
