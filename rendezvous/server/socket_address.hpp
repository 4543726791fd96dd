// SPDX-License-Identifier: Apache-2.0
// SocketAddress: a numeric address with its port, as the kernel wants it and as people read it.
// Nothing here asks a resolver, in either direction. Value type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sys/socket.h>

namespace muster {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  // "10.0.0.1", "::1", "fe80::1%eth0"; none for anything else, names among it.
  [[nodiscard]] static std::optional<SocketAddress> parse(const std::string& host,
                                                          std::uint16_t port);

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }

  [[nodiscard]] int family() const { return storage.ss_family; }

  // Numeric; an IPv4 address inside IPv6 as IPv4, a link-local one with its interface. Empty where
  // there is none.
  [[nodiscard]] std::string host() const;
  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::string describe() const;
};

// Of this end of a socket, and of the other one; empty where there is none.
[[nodiscard]] SocketAddress local_address(int fd);
[[nodiscard]] SocketAddress peer_address(int fd);

}  // namespace muster
