// SPDX-License-Identifier: Apache-2.0
#include "io/socket_address.hpp"

#include "base/fd.hpp"
#include "support/catch.hpp"
#include "support/seed.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <net/if.h>

#include <netinet/in.h>

using namespace muster;
using testing::Dice;
using testing::Seed;

namespace {

// Every machine has this interface, with number 1.
const std::string kLoopback = "lo";
const std::uint32_t kLoopbackIndex = ::if_nametoindex(kLoopback.c_str());

std::string reason(std::string_view text) {
  const auto parsed = SocketAddress::parse(text, 1);
  REQUIRE_FALSE(parsed);
  CHECK(parsed.error().code == Errc::usage);
  return parsed.error().message;
}

sockaddr_in6 raw_v6(const SocketAddress& address) {
  sockaddr_in6 out{};
  std::memcpy(&out, &address.storage, sizeof(out));
  return out;
}

SocketAddress random_v4(Dice& dice) {
  sockaddr_in raw{};
  raw.sin_family = AF_INET;
  raw.sin_port = static_cast<in_port_t>(dice.below(65536));
  raw.sin_addr.s_addr = static_cast<in_addr_t>(dice.below(1ULL << 32U));
  return *SocketAddress::copy_of(reinterpret_cast<const sockaddr&>(raw));
}

// Addresses of all kinds with a special notation: runs of zeros, link-local with an interface.
SocketAddress random_v6(Dice& dice) {
  sockaddr_in6 raw{};
  raw.sin6_family = AF_INET6;
  raw.sin6_port = static_cast<in_port_t>(dice.below(65536));
  for (std::uint8_t& byte : raw.sin6_addr.s6_addr) {
    byte = static_cast<std::uint8_t>(dice.below(2) == 0 ? 0 : dice.below(256));
  }
  if (dice.below(3) == 0) {
    raw.sin6_addr.s6_addr[0] = 0xfe;
    raw.sin6_addr.s6_addr[1] = static_cast<std::uint8_t>(0x80 + dice.below(0x40));
    raw.sin6_scope_id = dice.below(2) == 0 ? kLoopbackIndex : 0;
  }
  return *SocketAddress::copy_of(reinterpret_cast<const sockaddr&>(raw));
}

}  // namespace

TEST_CASE("socket address: formats and parses numeric addresses") {
  CHECK(SocketAddress::parse("10.0.0.1", 80)->describe() == "10.0.0.1:80");
  CHECK(SocketAddress::parse("::1", 80)->describe() == "[::1]:80");
  CHECK(SocketAddress::parse("2001:DB8:0:0::1", 80)->host() == "2001:db8::1");
  CHECK(SocketAddress::parse("::ffff:10.0.0.1", 80)->host() == "10.0.0.1");
  CHECK(local_address(-1).host().empty());
}

TEST_CASE("socket address: a link-local address has an interface, by name or by number") {
  const auto by_name = SocketAddress::parse("fe80::1%" + kLoopback, 80);
  const auto by_number = SocketAddress::parse("fe80::1%" + std::to_string(kLoopbackIndex), 80);
  REQUIRE(by_name);
  REQUIRE(by_number);
  CHECK(raw_v6(*by_name).sin6_scope_id == kLoopbackIndex);
  CHECK(*by_name == *by_number);
  CHECK(by_number->describe() == "[fe80::1%lo]:80");
  CHECK(by_name->is_link_local());
  CHECK(*by_name != *SocketAddress::parse("fe80::1", 80));
  CHECK(SocketAddress::parse("fe80::1", 80)->host() == "fe80::1");
}

TEST_CASE("socket address: rejects anything else with the reason") {
  for (const char* text : {"localhost",
                           "",
                           "127.0.0.1.",
                           "127.1",
                           "0x7f.0.0.1",
                           "[::1]",
                           "::1 ",
                           "10.0.0.01",
                           "1.2.3.4%lo",
                           "%lo",
                           ":::1",
                           "::g"}) {
    INFO(text);
    CHECK(reason(text) == "'" + std::string(text) + "' is not a numeric address");
    CHECK(!is_numeric_address(text));
  }
  const std::string_view with_zero("10.0.0.1\0x", 10);
  CHECK(!SocketAddress::parse(with_zero, 1));
  CHECK(!SocketAddress::parse(std::string(5000, ':'), 1));
  CHECK(reason("fe80::1%no-such-if").ends_with("that does not exist on this host"));
  for (const char* zone : {"", "0", "-1", " 1", "1 ", "+1", "99999999999999999999", "4294967297"}) {
    CHECK(reason(std::string("fe80::1%") + zone).ends_with("that does not exist on this host"));
  }
  CHECK(reason("2001:db8::1%lo").find("only link-local") != std::string::npos);
}

TEST_CASE("socket address: a numeric address is not a name, even if its interface does not exist") {
  for (const char* text : {"127.0.0.1", "::1", "fe80::1%lo", "fe80::1%no-such-if"}) {
    CHECK(is_numeric_address(text));
  }
}

TEST_CASE("socket address: every printed address parses to itself") {
  const Seed seed;
  INFO(seed.describe());
  Dice dice(seed.value());
  for (int i = 0; i < 20000; ++i) {
    const SocketAddress address = dice.below(4) == 0 ? random_v4(dice) : random_v6(dice);
    const std::string host = address.host();
    INFO(host);
    const auto parsed = SocketAddress::parse(host, address.port());
    REQUIRE(parsed);
    REQUIRE(parsed->host() == host);
    REQUIRE(parsed->port() == address.port());
    // An IPv4-mapped IPv6 address is printed, and therefore parsed, as IPv4.
    REQUIRE((*parsed == address || parsed->family() != address.family()));
  }
}

TEST_CASE(
    "socket address: random text is rejected, or its printed form parses to the same address") {
  const Seed seed;
  INFO(seed.describe());
  Dice dice(seed.value());
  constexpr std::string_view kAlphabet = "0123456789abcdefABF::::....%%lo \t[]x";
  constexpr std::array<std::string_view, 5> kStarts{"", "10.0.0.", "fe80::", "::ffff:", "1:2:3:"};
  int accepted = 0;
  for (int i = 0; i < 200000; ++i) {
    std::string text(kStarts.at(dice.below(kStarts.size())));
    for (std::uint64_t left = dice.below(8); left > 0; --left) {
      text += kAlphabet[dice.below(kAlphabet.size())];
    }
    const auto parsed = SocketAddress::parse(text, 7);
    if (!parsed) {
      continue;
    }
    ++accepted;
    INFO(text);
    REQUIRE(is_numeric_address(text));
    const auto again = SocketAddress::parse(parsed->host(), 7);
    REQUIRE(again);
    REQUIRE(again->host() == parsed->host());
  }
  CHECK(accepted > 100);
}

TEST_CASE("socket address: the route to an address starts at one of ours") {
  const auto loopback = SocketAddress::parse("127.0.0.9", 9);
  REQUIRE(source_towards(*loopback));
  CHECK(source_towards(*loopback)->host() == "127.0.0.1");
}

TEST_CASE("socket address: replaces another machine's interface with ours") {
  CHECK(with_our_interface("fe80::2%ib0", "fe80::1%eth7") == "fe80::2%eth7");
  CHECK(with_our_interface("fe80::2%ib0", "10.0.0.1") == "fe80::2%ib0");
  CHECK(with_our_interface("10.0.0.2", "fe80::1%eth7") == "10.0.0.2");
}
