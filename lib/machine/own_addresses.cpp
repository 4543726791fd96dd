// SPDX-License-Identifier: Apache-2.0
#include "machine/own_addresses.hpp"

#include "base/text.hpp"
#include "io/own_address.hpp"
#include "io/socket_address.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <net/if.h>

#include <ifaddrs.h>
#include <sys/socket.h>

namespace muster {
namespace {

std::string text_of(const sockaddr& address) {
  const auto known = SocketAddress::copy_of(address);
  return known ? known->host() : std::string();
}

bool is_wanted(const ifaddrs& entry) {
  return entry.ifa_addr != nullptr && (entry.ifa_flags & IFF_UP) != 0 &&
         (entry.ifa_addr->sa_family == AF_INET || entry.ifa_addr->sa_family == AF_INET6);
}

std::string describe(std::span<const OwnAddress> addresses) {
  std::vector<std::string> parts;
  for (const OwnAddress& own : addresses) {
    parts.push_back(fmt::format("{} ({})", own.interface, own.address));
  }
  return parts.empty() ? "no interface is up" : "available: " + join(parts, ", ");
}

}  // namespace

Result<std::vector<OwnAddress>> own_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return std::unexpected(system_error("cannot list this host's addresses", errno));
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  std::vector<OwnAddress> out;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (is_wanted(*entry)) {
      out.push_back({entry->ifa_name, text_of(*entry->ifa_addr)});
    }
  }
  return out;
}

Result<std::string> address_of_interface(std::string_view name,
                                         std::span<const OwnAddress> addresses) {
  const auto is_v4 = [&](const OwnAddress& own) {
    return own.interface == name && own.address.find(':') == std::string::npos;
  };
  const auto is_global = [&](const OwnAddress& own) {
    return own.interface == name && own.address.find('%') == std::string::npos;
  };
  auto found = std::ranges::find_if(addresses, is_v4);
  if (found == addresses.end()) {
    found = std::ranges::find_if(addresses, is_global);
  }
  if (found == addresses.end()) {
    return failure(Errc::usage,
                   fmt::format("no interface with this name is up and has an address that other "
                               "hosts can use; {}",
                               describe(addresses)));
  }
  return found->address;
}

std::vector<std::string> outward_addresses(std::span<const OwnAddress> addresses) {
  std::vector<std::string> out;
  for (const OwnAddress& own : addresses) {
    const bool is_link_local =
        own.address.find('%') != std::string::npos || own.address.starts_with("169.254.");
    if (!is_loopback(own.address) && !is_link_local) {
      out.push_back(own.address);
    }
  }
  return out;
}

std::string interface_of(std::string_view address, std::span<const OwnAddress> addresses) {
  const auto found = std::ranges::find(addresses, address, &OwnAddress::address);
  return is_loopback(address) || found == addresses.end() ? "" : found->interface;
}

}  // namespace muster
