// SPDX-License-Identifier: Apache-2.0
// SocketAddress: a numeric address with its port, as the kernel wants it and as people read it. The
// only parser and the only printer of addresses. Nothing here asks a resolver, in either direction.
// Value type.
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

  // "10.0.0.1", "::1", and link-local addresses with their interface: "fe80::1%eth0", "fe80::1%2".
  // Error: usage, for anything else (names too) and for an interface that this machine lacks.
  [[nodiscard]] static Result<SocketAddress> parse(std::string_view host, std::uint16_t port);

  // As the kernel gave it (getifaddrs, c-ares). None for families other than IPv4 and IPv6.
  [[nodiscard]] static std::optional<SocketAddress> copy_of(const sockaddr& raw);

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }

  [[nodiscard]] int family() const { return storage.ss_family; }

  // Numeric; an IPv4 address inside IPv6 as IPv4, a link-local one with its interface. Empty where
  // there is none.
  [[nodiscard]] std::string host() const;
  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::string describe() const;

  [[nodiscard]] bool is_link_local() const;

  bool operator==(const SocketAddress& other) const;
};

// Whether the text is an address rather than a name. Its interface need not exist: that is for
// parse to say.
[[nodiscard]] bool is_numeric_address(std::string_view text);

// An address of another machine, as this one has to write it. A link-local one comes with that
// machine's name for the interface, which may mean another one here or none: it is replaced by the
// interface of `ours`, a link-local address of this machine. Any other is returned as it is.
[[nodiscard]] std::string with_our_interface(const std::string& theirs, const std::string& ours);

// Of this end of a socket, and of the other one; empty where there is none.
[[nodiscard]] SocketAddress local_address(int fd);
[[nodiscard]] SocketAddress peer_address(int fd);

// The address of this machine from which the kernel would send there; nothing is sent. None where
// no route leads there.
[[nodiscard]] std::optional<SocketAddress> source_towards(const SocketAddress& there);

}  // namespace muster
