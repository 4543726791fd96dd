// SPDX-License-Identifier: Apache-2.0
// Waiting for one descriptor until a deadline, for code that may block: the store's client, tools,
// the start of collectives. A signal in between changes nothing. Stateless.
#pragma once

#include "base/time.hpp"

namespace muster {

// Milliseconds for poll, rounded up so that it does not wake too early and spin.
[[nodiscard]] int poll_timeout(TimePoint deadline);

// Whether the descriptor is ready for `events` (POLLIN, POLLOUT), or broken, before the deadline.
[[nodiscard]] bool wait_ready(int fd, short events, TimePoint deadline);

}  // namespace muster
