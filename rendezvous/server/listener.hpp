// SPDX-License-Identifier: Apache-2.0
// Creates listening sockets for the store and the rendezvous. Addresses are numeric; a name is an
// error. Stateless.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "io/port_range.hpp"
#include "io/socket_address.hpp"

#include <cstdint>
#include <expected>
#include <string>

namespace muster {

// A non-blocking socket that listens on a numeric address. "::" includes IPv4, and means 0.0.0.0 on
// a host without IPv6. Errors: usage, if the address is a name; system, with advice.
[[nodiscard]] Result<UniqueFd> listen_on(const std::string& address, std::uint16_t port);

// Like listen_on, but uses the first free port in the range.
[[nodiscard]] Result<UniqueFd> listen_in_range(const std::string& address, PortRange range);

// Like listen_on, but the error is an errno, for callers that distinguish the reasons.
[[nodiscard]] std::expected<UniqueFd, int> try_listen(const SocketAddress& address);

// Creates a non-blocking socket that is not bound yet. listen_with binds it and makes it listen.
[[nodiscard]] Result<UniqueFd> make_unbound_socket(int family);
[[nodiscard]] Result<void> listen_with(int fd, const std::string& address, PortRange range);

// The port of a bound socket.
[[nodiscard]] std::uint16_t port_of(int fd);

// The address of a connection's peer, for example "127.0.0.1:40312".
[[nodiscard]] std::string describe_peer(int fd);

}  // namespace muster
