// SPDX-License-Identifier: Apache-2.0
// Whether a client is connected to a server on this host. debugpy does not report this to other
// processes, and its clients connect without muster. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace muster {

// `table`: the contents of /proc/net/tcp. True if it has an established connection whose local
// address is 127.0.0.1 and this port.
[[nodiscard]] bool has_client(std::string_view table, std::uint16_t port);

}  // namespace muster
