// SPDX-License-Identifier: Apache-2.0
// Numeric addresses and listening sockets for StoreServer. Nothing here asks a resolver: a name is
// an error, and peers are named by their numbers. Stateless.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"

#include <cstdint>
#include <string>

namespace muster {

// A non-blocking socket that listens on a numeric address ("::" serves IPv4 too, and is 0.0.0.0 on
// a machine without IPv6). Errors: usage for a name; system, with what to try.
[[nodiscard]] Result<UniqueFd> listen_on(const std::string& address, std::uint16_t port);

// The port that a bound socket has.
[[nodiscard]] std::uint16_t port_of(int fd);

// "127.0.0.1:40312", the other end of a connection.
[[nodiscard]] std::string describe_peer(int fd);

}  // namespace muster
