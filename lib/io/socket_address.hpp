// SPDX-License-Identifier: Apache-2.0
// SocketAddress: a numeric address and port, in the kernel's format and as text. No other code
// parses or formats addresses. Never resolves names or performs reverse lookups. Value type.
#pragma once

#include "base/error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <sys/socket.h>

namespace muster {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  // Parses "10.0.0.1", "::1", and link-local addresses with their interface: "fe80::1%eth0",
  // "fe80::1%2". Error: usage, for all other text including names, and if the interface does not
  // exist on this host.
  [[nodiscard]] static Result<SocketAddress> parse(std::string_view host, std::uint16_t port);

  // Copies an address returned by getifaddrs or c-ares. None for families other than IPv4 and IPv6.
  [[nodiscard]] static std::optional<SocketAddress> copy_of(const sockaddr& raw);

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }

  [[nodiscard]] int family() const { return storage.ss_family; }

  // The numeric address. An IPv4-mapped IPv6 address is printed as IPv4, and a link-local address
  // with its interface. Empty if there is no address.
  [[nodiscard]] std::string host() const;
  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::string describe() const;

  [[nodiscard]] bool is_link_local() const;

  bool operator==(const SocketAddress& other) const;
};

// True if the text is an address rather than a name. Does not check that the interface exists;
// parse does.
[[nodiscard]] bool is_numeric_address(std::string_view text);

// Converts another host's address to the form that works on this host. A link-local address
// contains the other host's interface name, which may be different or missing here. It is replaced
// with the interface of `ours`, a link-local address of this host. Other addresses are returned
// unchanged.
[[nodiscard]] std::string with_our_interface(const std::string& theirs, const std::string& ours);

// The addresses of the local and the remote end of a socket; empty if there is none.
[[nodiscard]] SocketAddress local_address(int fd);
[[nodiscard]] SocketAddress peer_address(int fd);

// This host's source address for packets to `there`. Sends nothing. None if there is no route.
[[nodiscard]] std::optional<SocketAddress> source_towards(const SocketAddress& there);

}  // namespace muster
