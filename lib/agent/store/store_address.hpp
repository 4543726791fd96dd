// SPDX-License-Identifier: Apache-2.0
// Opens the workers' store, which listens only on the address that the workers connect to. Used by
// the agent. The caller resolves names (io/name_lookup), so that unresponsive name servers never
// block the loop.
#pragma once

#include "base/error.hpp"
#include "io/port_range.hpp"
#include "rendezvous/server/server.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace muster {

// True if the address is a name that must be resolved: neither numeric nor "localhost".
[[nodiscard]] bool needs_lookup(const std::string& master_addr);

// For addresses that need no lookup. A numeric address stays unchanged. "localhost" becomes
// 127.0.0.1, because clients that try ::1 first fall back to 127.0.0.1. On a host without
// 127.0.0.1, both become ::1.
[[nodiscard]] std::string numeric_address(const std::string& master_addr);

// Listens on the first address in `addresses` (numeric) that belongs to this host, on `port` or, if
// that is 0, on a free port in `range`. Errors: those of listen_on and listen_in_range.
[[nodiscard]] Result<std::unique_ptr<StoreServer>> open_store(
    asio::io_context& loop,
    const std::vector<std::string>& addresses,
    std::uint16_t port,
    PortRange range);

}  // namespace muster
