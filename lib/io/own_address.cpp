// SPDX-License-Identifier: Apache-2.0
#include "io/own_address.hpp"

#include "io/socket_address.hpp"

#include <optional>

#include <ifaddrs.h>

namespace muster {
namespace {

// A route lookup works with any port; this is the discard port.
constexpr std::uint16_t kDiscardPort = 9;

// True if packets to the address would have that same address as their source.
bool leads_to_itself(const std::string& address) {
  const auto there = SocketAddress::parse(address, kDiscardPort);
  const auto source = there ? source_towards(*there) : std::nullopt;
  return source && source->host() == there->host();
}

bool has_interface(const std::string& address) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) {
    return false;
  }
  bool found = false;
  for (const ifaddrs* one = all; one != nullptr && !found; one = one->ifa_next) {
    const auto known =
        one->ifa_addr == nullptr ? std::nullopt : SocketAddress::copy_of(*one->ifa_addr);
    found = known && known->host() == address;
  }
  ::freeifaddrs(all);
  return found;
}

}  // namespace

bool is_loopback(std::string_view address) {
  return address.starts_with("127.") || address == "::1";
}

std::string loopback_address() {
  return !leads_to_itself(kLoopback) && leads_to_itself("::1") ? "::1" : kLoopback;
}

// A successful bind proves nothing if net.ipv4.ip_nonlocal_bind is set, so check the route instead.
bool is_own_address(const std::string& address) {
  const auto parsed = SocketAddress::parse(address, 0);
  return parsed &&
         (is_loopback(address) || leads_to_itself(address) || has_interface(parsed->host()));
}

}  // namespace muster
