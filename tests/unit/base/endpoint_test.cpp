// SPDX-License-Identifier: Apache-2.0
#include "base/endpoint.hpp"

#include "support/catch.hpp"

using namespace muster;

TEST_CASE("endpoint: names, IPv4 and IPv6 with and without a port") {
  CHECK(parse_endpoint("node1") == Endpoint{"node1", std::nullopt});
  CHECK(parse_endpoint("node1:29400") == Endpoint{"node1", 29400});
  CHECK(parse_endpoint("10.0.0.1:0") == Endpoint{"10.0.0.1", 0});
  CHECK(parse_endpoint("[::1]:5") == Endpoint{"::1", 5});
  CHECK(parse_endpoint("[fe80::1%eth0]") == Endpoint{"fe80::1%eth0", std::nullopt});
  CHECK(parse_endpoint("::1") == Endpoint{"::1", std::nullopt});
}

TEST_CASE("endpoint: printed endpoints can be parsed again") {
  for (const auto* text : {"node1:29400", "[::1]:5", "10.0.0.1"}) {
    CHECK(parse_endpoint(text)->describe() == text);
  }
}

TEST_CASE("endpoint: bad ports and hosts are refused with the text in the message") {
  for (const auto* text : {"h:", "h:x", "h:65536", "h:-1", ":5", "", "a b:1", "[::1", "[::1]x"}) {
    const auto parsed = parse_endpoint(text);
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().code == Errc::usage);
    CHECK(parsed.error().message.find(text) != std::string::npos);
  }
}

TEST_CASE("endpoint: a range of ports") {
  CHECK(parse_port_range("1-65535") == std::pair<std::uint16_t, std::uint16_t>(1, 65535));
  CHECK(parse_port_range("5-5") == std::pair<std::uint16_t, std::uint16_t>(5, 5));
  for (const auto* text : {"", "5", "-", "0-5", "6-5", "5-65536", "5-6-7", "5-", "a-b"}) {
    INFO(text);
    CHECK_FALSE(parse_port_range(text));
  }
}
