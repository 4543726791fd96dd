// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/listener.hpp"

#include "io/held_port.hpp"
#include "support/catch.hpp"

using namespace muster;

TEST_CASE("listener: finds and binds a free port") {
  const auto first = listen_on("127.0.0.1", 0);
  REQUIRE(first);
  const std::uint16_t port = port_of(first->get());
  CHECK(port != 0);
  const auto second = listen_on("127.0.0.1", port);
  REQUIRE_FALSE(second);
  CHECK(second.error().code == Errc::system);
  CHECK(second.error().message ==
        "cannot listen on 127.0.0.1:" + std::to_string(port) +
            ": Address already in use; stop the program that uses it, or use port 0 for "
            "any free port");
}

TEST_CASE("listener: does not resolve names") {
  for (const char* name : {"localhost", "", "127.0.0.1.", "[::1]", "0x7f.1"}) {
    const auto socket = listen_on(name, 0);
    REQUIRE_FALSE(socket);
    CHECK(socket.error().code == Errc::usage);
  }
}

TEST_CASE("listener: an address of another machine is an error with the remedy") {
  const auto socket = listen_on("192.0.2.1", 0);
  REQUIRE_FALSE(socket);
  CHECK(socket.error().message ==
        "cannot listen on 192.0.2.1:0: Cannot assign requested address; this host has no such "
        "address: use a local address, or :: for all");
}

TEST_CASE("listener: uses the first free port of a range") {
  const auto any = listen_on("127.0.0.1", 0);
  REQUIRE(any);
  const std::uint16_t taken = port_of(any->get());
  const auto next = static_cast<std::uint16_t>(taken + 1);
  const auto only = listen_in_range("127.0.0.1", {taken, taken});
  REQUIRE_FALSE(only);
  const std::string port = std::to_string(taken);
  CHECK(only.error().message ==
        "cannot listen on 127.0.0.1: every port from " + port + " to " + port +
            " is in use; widen --port-range, or stop the programs that use them");
  const auto found = listen_in_range("127.0.0.1", {taken, next});
  // Another process may have the other port.
  CHECK((!found || port_of(found->get()) == next));
  CHECK(listen_in_range("127.0.0.1", {}));
  CHECK_FALSE(listen_in_range("192.0.2.1", {taken, next}));
}

TEST_CASE("listener: a socket that was made earlier listens in a range") {
  const auto any = listen_on("127.0.0.1", 0);
  REQUIRE(any);
  const std::uint16_t taken = port_of(any->get());
  const auto late = make_unbound_socket(AF_INET);
  REQUIRE(late);
  CHECK_FALSE(listen_with(late->get(), "127.0.0.1", {taken, taken}));
  REQUIRE(listen_with(late->get(), "127.0.0.1", {taken, 65535}));
  CHECK(port_of(late->get()) > taken);
  CHECK(local_address(late->get()).host() == "127.0.0.1");
}

TEST_CASE("listener: a port that a launcher reserves for its workers counts as taken") {
  const auto held = HeldPort::take({});
  REQUIRE(held);
  const PortRange range{held->number(), held->number()};
  CHECK_FALSE(listen_in_range("127.0.0.1", range));
  const auto late = make_unbound_socket(AF_INET);
  REQUIRE(late);
  CHECK_FALSE(listen_with(late->get(), "127.0.0.1", range));
}
