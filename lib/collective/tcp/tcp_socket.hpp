// SPDX-License-Identifier: Apache-2.0
// TCP sockets between ranks: listening, connecting and sending the first bytes. Calls block until
// a deadline; the returned sockets are non-blocking.
#pragma once

#include "base/fd.hpp"
#include "base/time.hpp"
#include "collective/error.hpp"
#include "rendezvous/server/listener.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace muster::collective {

// A host that is silent for this long counts as lost, for example after a power or link failure.
// The kernel probes idle connections, such as the control lane.
inline constexpr Duration kSilence = std::chrono::seconds(14);

struct Listening {
  UniqueFd fd;
  std::uint16_t port = 0;
};

// Listens on the address published to the other ranks, on the first free port in the range.
// Listens on all addresses only if that address does not exist on this machine, for example behind
// NAT.
[[nodiscard]] Result<Listening> listen_at(const std::string& address, PortRange ports);

// Sets TCP_NODELAY and keepalive on an accepted connection.
void prepare_connection(int fd);

// Connects to a numeric address.
[[nodiscard]] Result<UniqueFd> connect_until(const std::string& address,
                                             std::uint16_t port,
                                             TimePoint deadline);

// Sends all bytes. False if the connection is closed or the deadline expires.
[[nodiscard]] bool send_all(int fd, std::span<const char> bytes, TimePoint deadline);

// The local address of the route to `host`; empty if it cannot be determined.
[[nodiscard]] std::string address_towards(const std::string& host, Duration timeout);

}  // namespace muster::collective
