// SPDX-License-Identifier: Apache-2.0
// TCP sockets between ranks: listening, connecting, the first bytes on a connection. Blocking with
// a deadline; what comes out does not block.
#pragma once

#include "base/fd.hpp"
#include "base/time.hpp"
#include "collective/error.hpp"
#include "rendezvous/server/listener.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace muster::collective {

// A host from which nothing comes for so long counts as gone: a machine without power, a cut link.
// The kernel asks on connections where nothing is under way, as on the control lane.
inline constexpr Duration kSilence = std::chrono::seconds(14);

struct Listening {
  UniqueFd fd;
  std::uint16_t port = 0;
};

// At the address that the other ranks are given, on the first port of the range that is free; at
// all addresses only where it is none of this machine, as behind a translation of addresses.
[[nodiscard]] Result<Listening> listen_at(const std::string& address, PortRange ports);

// Of an accepted connection: no Nagle, and the kernel asks whether the other host is there.
void prepare_connection(int fd);

// To a numeric address.
[[nodiscard]] Result<UniqueFd> connect_until(const std::string& address,
                                             std::uint16_t port,
                                             TimePoint deadline);

// All bytes; false: closed, or the deadline.
[[nodiscard]] bool send_all(int fd, std::span<const char> bytes, TimePoint deadline);

// The address of this machine that packets to `host` leave from; empty if that cannot be found out.
[[nodiscard]] std::string address_towards(const std::string& host, Duration timeout);

}  // namespace muster::collective
