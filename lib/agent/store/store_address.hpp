// SPDX-License-Identifier: Apache-2.0
// Where the workers' store listens, given what the workers will dial: that address and no other.
// Used by the agent; names are looked up by the caller (io/name_lookup), so that silent servers
// never stop the loop.
#pragma once

#include "base/error.hpp"
#include "io/port_range.hpp"
#include "rendezvous/server/server.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace muster {

// Whether it is a name that has to be looked up: neither numeric nor "localhost".
[[nodiscard]] bool needs_lookup(const std::string& master_addr);

// Without a lookup: a numeric address as it is. "localhost" is 127.0.0.1, which clients try as well
// if they try ::1 first. Both are ::1 on a host that has no 127.0.0.1.
[[nodiscard]] std::string numeric_address(const std::string& master_addr);

// Listens on the first of `addresses` (numeric) that belongs to this machine: at `port` or, where
// that is 0, at a free one of `range`. Errors: those of listen_on and listen_in_range.
[[nodiscard]] Result<std::unique_ptr<StoreServer>> open_store(
    asio::io_context& loop,
    const std::vector<std::string>& addresses,
    std::uint16_t port,
    PortRange range);

}  // namespace muster
