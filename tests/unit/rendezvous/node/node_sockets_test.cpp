// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/node/node_sockets.hpp"

#include "support/catch.hpp"

using namespace muster;

namespace {

EndpointPlace place(const std::string& host, std::vector<std::string> addresses) {
  const auto free = listen_on("127.0.0.1", 0);
  return {.host = host, .port = port_of(free->get()), .addresses = std::move(addresses)};
}

}  // namespace

TEST_CASE("node sockets: an endpoint belongs to whom can bind it, once") {
  const auto numeric = place("127.0.0.3", {"127.0.0.3"});
  const EndpointBinding first = bind_endpoint(numeric);
  CHECK(first.state == EndpointState::ours);
  CHECK(first.address == "127.0.0.3");
  REQUIRE(first.listeners.size() == 1);
  CHECK(local_address(first.listeners[0].get()).host() == "127.0.0.3");
  const EndpointBinding second = bind_endpoint(numeric);
  CHECK(second.state == EndpointState::taken);
  CHECK(second.listeners.empty());
  CHECK(bind_endpoint(place("192.0.2.1", {"192.0.2.1"})).state == EndpointState::elsewhere);
  CHECK(bind_endpoint(place("unknown", {})).state == EndpointState::elsewhere);
}

TEST_CASE("node sockets: listens on localhost with both versions of IP") {
  const EndpointBinding binding = bind_endpoint(place("localhost", {"127.0.0.1", "::1"}));
  CHECK(binding.state == EndpointState::ours);
  CHECK(binding.address == "127.0.0.1");
  CHECK(binding.listeners.size() == (is_own_address("::1") ? 2 : 1));
}

TEST_CASE("node sockets: listens on all addresses if the endpoint is this machine's name") {
  // As in Debian's /etc/hosts: other hosts resolve the name to a different address.
  const EndpointPlace named = place("this-machine", {"127.0.1.1"});
  const EndpointBinding binding = bind_endpoint(named);
  CHECK(binding.state == EndpointState::ours);
  CHECK(is_own_address(binding.address));
  REQUIRE(binding.listeners.size() == 1);
  const auto elsewhere = SocketAddress::parse("127.0.0.7", named.port);
  const UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  CHECK(::connect(client.get(), elsewhere->get(), elsewhere->size) == 0);
}

TEST_CASE(
    "node sockets: of several machines with one name, the one with the lowest address owns it") {
  CHECK(bind_endpoint(place("service", {"192.0.2.9", "127.0.0.1"})).state == EndpointState::ours);
  CHECK(bind_endpoint(place("service", {"127.0.0.1", "10.255.255.1"})).state ==
        EndpointState::elsewhere);
}

TEST_CASE("node sockets: the node's own listener exists before it has an address") {
  auto sockets = make_node_sockets();
  REQUIRE(sockets);
  CHECK(port_of(sockets->v4.get()) == 0);
  const int before = sockets->v4.get();
  const auto own = open_own_listener(*sockets, "", "127.0.0.9", {});
  REQUIRE(own);
  CHECK(own->fd.get() == before);
  CHECK(own->address == "127.0.0.9");
  CHECK(local_address(before).describe() == "127.0.0.9:" + std::to_string(own->port));
}

TEST_CASE("node sockets: announces an address behind NAT, and listens on all addresses") {
  auto sockets = make_node_sockets();
  REQUIRE(sockets);
  const auto own = open_own_listener(*sockets, "192.0.2.77", "127.0.0.1", {});
  REQUIRE(own);
  CHECK(own->address == "192.0.2.77");
  CHECK(local_address(own->fd.get()).host() == "0.0.0.0");
}
