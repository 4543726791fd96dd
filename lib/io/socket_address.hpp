// SPDX-License-Identifier: Apache-2.0
// SocketAddress: a numeric address and port, in the kernel's format and as text. The only parser
// and formatter of addresses. Never resolves names, in either direction. Value type.
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
  // "fe80::1%2". Error: usage, for anything else (including names) and for an interface that does
  // not exist on this host.
  [[nodiscard]] static Result<SocketAddress> parse(std::string_view host, std::uint16_t port);

  // From an address returned by getifaddrs or c-ares. None for families other than IPv4 and IPv6.
  [[nodiscard]] static std::optional<SocketAddress> copy_of(const sockaddr& raw);

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }

  [[nodiscard]] int family() const { return storage.ss_family; }

  // Numeric. An IPv4-mapped IPv6 address is printed as IPv4, a link-local one with its interface.
  // Empty if there is no address.
  [[nodiscard]] std::string host() const;
  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::string describe() const;

  [[nodiscard]] bool is_link_local() const;

  bool operator==(const SocketAddress& other) const;
};

// True if the text is an address and not a name. The interface need not exist; parse checks that.
[[nodiscard]] bool is_numeric_address(std::string_view text);

// Another host's address, as this host has to write it. A link-local address contains that host's
// name for the interface, which may be different or missing here. It is replaced by the interface
// of `ours`, a link-local address of this host. Other addresses are returned unchanged.
[[nodiscard]] std::string with_our_interface(const std::string& theirs, const std::string& ours);

// The addresses of this end and the other end of a socket; empty if there is none.
[[nodiscard]] SocketAddress local_address(int fd);
[[nodiscard]] SocketAddress peer_address(int fd);

// This host's source address for packets to that address; nothing is sent. None if there is no
// route.
[[nodiscard]] std::optional<SocketAddress> source_towards(const SocketAddress& there);

}  // namespace muster
