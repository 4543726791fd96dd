// SPDX-License-Identifier: Apache-2.0
#include "machine/own_addresses.hpp"

#include "base/fd.hpp"
#include "support/catch.hpp"

#include <algorithm>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

using namespace muster;

namespace {

std::vector<OwnAddress> node() {
  return {{"lo", "127.0.0.1"},
          {"ib0", "2001:db8::7"},
          {"eth0", "fe80::7%eth0"},
          {"eth0", "2001:db8::8"},
          {"eth0", "10.0.0.7"},
          {"eth0", "10.0.0.8"},
          {"usb0", "fe80::9%usb0"}};
}

std::string refused(std::string_view name, const std::vector<OwnAddress>& addresses) {
  const auto out = address_of_interface(name, addresses);
  if (out) {
    return "accepted";
  }
  CHECK(out.error().code == Errc::usage);
  return out.error().message;
}

// Whether the kernel permits a bind to this address, which it does only for local addresses.
bool can_bind(const std::string& address) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in place{};
  place.sin_family = AF_INET;
  REQUIRE(::inet_pton(AF_INET, address.c_str(), &place.sin_addr) == 1);
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0;
}

}  // namespace

TEST_CASE("address of interface: IPv4 first, then IPv6 that is valid on other hosts") {
  CHECK(address_of_interface("eth0", node()) == "10.0.0.7");
  CHECK(address_of_interface("ib0", node()) == "2001:db8::7");
  CHECK(address_of_interface("lo", node()) == "127.0.0.1");
}

TEST_CASE("address of interface: an unknown name is an error that lists the existing names") {
  CHECK(refused("eth1", {{"lo", "127.0.0.1"}, {"eth0", "10.0.0.7"}}) ==
        "no interface with this name is up and has an address that other hosts can use; available: "
        "lo (127.0.0.1), eth0 (10.0.0.7)");
  CHECK(refused("usb0", node()).find("usb0 (fe80::9%usb0)") != std::string::npos);
  CHECK(refused("ETH0", node()) != "accepted");
  CHECK(refused("eth0", {}).ends_with("no interface is up"));
}

TEST_CASE("own addresses: contains loopback, and each IPv4 address can be bound") {
  const auto own = own_addresses();
  REQUIRE(own);
  CHECK(std::ranges::find(*own, OwnAddress{"lo", "127.0.0.1"}) != own->end());
  for (const OwnAddress& entry : *own) {
    INFO(entry.interface << " " << entry.address);
    CHECK_FALSE(entry.interface.empty());
    if (entry.address.find(':') == std::string::npos) {
      CHECK(can_bind(entry.address));
    }
  }
}

TEST_CASE("own addresses: other hosts see neither loopback nor link-local addresses") {
  std::vector<OwnAddress> own = node();
  own.push_back({"usb0", "169.254.0.2"});
  CHECK(outward_addresses(own) ==
        std::vector<std::string>{"2001:db8::7", "2001:db8::8", "10.0.0.7", "10.0.0.8"});
}

TEST_CASE("own addresses: finds the interface of an address; a loopback address has none") {
  CHECK(interface_of("10.0.0.8", node()) == "eth0");
  CHECK(interface_of("2001:db8::7", node()) == "ib0");
  CHECK(interface_of("10.0.0.9", node()).empty());
  CHECK(interface_of("127.0.0.1", node()).empty());
}
