// SPDX-License-Identifier: Apache-2.0
// The numeric addresses of this host, by network interface. Used for --iface, for the addresses
// that this node announces, and to recognise this host in a list of addresses. Values; queries only
// the kernel and resolves no names, so calls return immediately.
#pragma once

#include "base/error.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

struct OwnAddress {
  std::string interface;
  std::string address;  // "10.0.0.7", "2001:db8::7"; link-local with a zone: "fe80::7%eth0"
  bool operator==(const OwnAddress&) const = default;
};

// The addresses of all interfaces that are up, including loopback, in the kernel's order.
[[nodiscard]] Result<std::vector<OwnAddress>> own_addresses();

// The first IPv4 address of that interface, or else its first IPv6 address that is not link-local
// (zones are local to a host). Error: usage, which lists the available interfaces. Pure.
[[nodiscard]] Result<std::string> address_of_interface(std::string_view name,
                                                       std::span<const OwnAddress> addresses);

// The addresses that other hosts may see as the source of a connection: neither loopback nor
// link-local. Pure.
[[nodiscard]] std::vector<std::string> outward_addresses(std::span<const OwnAddress> addresses);

// The interface that has this address; empty for loopback addresses and for addresses of other
// hosts. Pure.
[[nodiscard]] std::string interface_of(std::string_view address,
                                       std::span<const OwnAddress> addresses);

}  // namespace muster
