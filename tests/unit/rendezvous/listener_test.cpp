// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/listener.hpp"

#include "support/catch.hpp"

using namespace muster;

TEST_CASE("listener: a free port is found and taken") {
  const auto first = listen_on("127.0.0.1", 0);
  REQUIRE(first);
  const std::uint16_t port = port_of(first->get());
  CHECK(port != 0);
  const auto second = listen_on("127.0.0.1", port);
  REQUIRE_FALSE(second);
  CHECK(second.error().code == Errc::system);
  CHECK(second.error().message ==
        "cannot listen on 127.0.0.1:" + std::to_string(port) +
            ": Address already in use; another program has it: stop that one, or use port 0 for "
            "any free port");
}

TEST_CASE("listener: names are not resolved") {
  for (const char* name : {"localhost", "", "127.0.0.1.", "[::1]", "0x7f.1"}) {
    const auto socket = listen_on(name, 0);
    REQUIRE_FALSE(socket);
    CHECK(socket.error().code == Errc::usage);
  }
}

TEST_CASE("listener: an address of another machine is refused with what to do") {
  const auto socket = listen_on("192.0.2.1", 0);
  REQUIRE_FALSE(socket);
  CHECK(socket.error().message ==
        "cannot listen on 192.0.2.1:0: Cannot assign requested address; this machine has no such "
        "address: use one of its own, or :: for all");
}
