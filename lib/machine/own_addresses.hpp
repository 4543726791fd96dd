// SPDX-License-Identifier: Apache-2.0
// The numeric addresses of this machine, by network interface. For --iface, for what this node
// tells others about itself, and for knowing itself in a list of addresses. Values; the question is
// answered by the kernel at once, no name is resolved.
#pragma once

#include "base/error.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

struct OwnAddress {
  std::string interface;
  std::string
      address;  // "10.0.0.7", "2001:db8::7", link-local ones with their zone: "fe80::7%eth0"
  bool operator==(const OwnAddress&) const = default;
};

// Of all interfaces that are up, loopback included, as the kernel lists them.
[[nodiscard]] Result<std::vector<OwnAddress>> own_addresses();

// The first IPv4 address of that interface, else its first IPv6 address that is not link-local (a
// zone means nothing on other machines). Error: usage, with the interfaces that there are. Pure.
[[nodiscard]] Result<std::string> address_of_interface(std::string_view name,
                                                       std::span<const OwnAddress> addresses);

// The interface that has this address; empty for a loopback address, and for one of another
// machine. Pure.
[[nodiscard]] std::string interface_of(std::string_view address,
                                       std::span<const OwnAddress> addresses);

}  // namespace muster
