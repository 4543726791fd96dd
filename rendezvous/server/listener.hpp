// SPDX-License-Identifier: Apache-2.0
// Listening sockets for the store and for the rendezvous of nodes. Addresses are numeric; a name is
// an error. Stateless.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "io/port_range.hpp"
#include "io/socket_address.hpp"

#include <cstdint>
#include <expected>
#include <string>

namespace muster {

// A non-blocking socket that listens on a numeric address ("::" serves IPv4 too, and is 0.0.0.0 on
// a machine without IPv6). Errors: usage for a name; system, with what to try.
[[nodiscard]] Result<UniqueFd> listen_on(const std::string& address, std::uint16_t port);

// The same on the first port of the range that is free; one that is taken costs nothing.
[[nodiscard]] Result<UniqueFd> listen_in_range(const std::string& address, PortRange range);

// The same for who has to tell the reasons apart: the unexpected side is the errno.
[[nodiscard]] std::expected<UniqueFd, int> try_listen(const SocketAddress& address);

// A non-blocking socket that is not bound yet, and what makes it listen later.
[[nodiscard]] Result<UniqueFd> make_unbound_socket(int family);
[[nodiscard]] Result<void> listen_with(int fd, const std::string& address, PortRange range);

// The port that a bound socket has.
[[nodiscard]] std::uint16_t port_of(int fd);

// "127.0.0.1:40312", the other end of a connection.
[[nodiscard]] std::string describe_peer(int fd);

}  // namespace muster
