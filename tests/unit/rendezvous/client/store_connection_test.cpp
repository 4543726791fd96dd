// SPDX-License-Identifier: Apache-2.0
// The client against servers that are slow, old, wrong or absent.
#include "rendezvous/client/store_connection.hpp"

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "canned_server.hpp"
#include "rendezvous/client/blocking_store.hpp"
#include "support/catch.hpp"
#include "support/hex.hpp"
#include "unit/rendezvous/server/server_thread.hpp"

#include <thread>

#include <unistd.h>

using namespace muster;
using testing::CannedServer;
using testing::from_hex;

namespace {

constexpr Duration kTimeout = std::chrono::seconds(30);
constexpr Duration kShort = std::chrono::milliseconds(300);

std::string pong() {
  std::string out;
  append_int(out, static_cast<std::uint32_t>(::getpid()));
  return out;
}

// A port that was free a moment ago.
std::uint16_t free_port() {
  const auto listener = listen_on("127.0.0.1", 0);
  REQUIRE(listener);
  return port_of(listener->get());
}

}  // namespace

TEST_CASE("store connection: an error names an absent server after the timeout") {
  const std::uint16_t port = free_port();
  const TimePoint start = steady_now();
  const auto store = BlockingStore::connect("127.0.0.1", port, kShort);
  REQUIRE_FALSE(store);
  CHECK(store.error().code == Errc::unreachable);
  CHECK(store.error().message == "cannot reach the store at 127.0.0.1:" + std::to_string(port) +
                                     " within 300ms: Connection refused");
  CHECK(steady_now() - start <= kShort + std::chrono::seconds(10));
}

TEST_CASE("store connection: finds a server that starts late") {
  const std::uint16_t port = free_port();
  Result<std::unique_ptr<BlockingStore>> store;
  std::thread client([&] { store = BlockingStore::connect("127.0.0.1", port, kTimeout); });
  const testing::ServerThread server("127.0.0.1", port);
  client.join();
  REQUIRE(store);
  CHECK((*store)->add("n", 1) == 1);
}

TEST_CASE("store connection: greets a server that lacks PING without it") {
  // The server closes the first connection, like PyTorch 2.1 to 2.4, and answers CHECK on the
  // second.
  CannedServer server({{{10, ""}}, {{14, std::string(1, '\0')}}});
  const auto store = BlockingStore::connect("127.0.0.1", server.port(), kTimeout);
  REQUIRE(store);
  CHECK(server.received().at(1) == from_hex("00CEF7853C 05 0000000000000000"));
}

TEST_CASE("store connection: a wrong echo means that the server is not a store") {
  CannedServer server({{{10, "nope"}}});
  const auto store = BlockingStore::connect("127.0.0.1", server.port(), kShort);
  REQUIRE_FALSE(store);
  CHECK(store.error().code == Errc::unreachable);
}

TEST_CASE("store connection: uses ADD and WAIT if the server lacks BARRIER") {
  // BARRIER is 1 + 8 + 2 + 8 bytes; the server closes the connection when it receives it.
  const std::string two = from_hex("0200000000000000");
  CannedServer server(
      {{{10, pong()}, {19, ""}}, {{10, pong()}, {31, two}, {32, ""}, {31, std::string(1, '\0')}}});
  const auto store = BlockingStore::connect("127.0.0.1", server.port(), kTimeout);
  REQUIRE(store);
  CHECK((*store)->barrier("b", 2, kTimeout));
  const std::string& second = server.received().at(1);
  CHECK(second.substr(10) == from_hex("04 0E00000000000000 '/b/num_members' 0100000000000000"
                                      "01 0E00000000000000 '/b/last_member' 0100000000000000 '1'"
                                      "06 0100000000000000 0E00000000000000 '/b/last_member'"));
}

TEST_CASE("store connection: an answer that arrives just as the wait is cancelled counts") {
  // The server answers CANCEL_WAIT with STOP_WAITING, because the key was set at that moment.
  CannedServer server(
      {{{10, pong()}, {19, ""}, {1, from_hex("00 01")}, {11, from_hex("0700000000000000")}}});
  const auto store = BlockingStore::connect("127.0.0.1", server.port(), kTimeout);
  REQUIRE(store);
  CHECK((*store)->wait({"k"}, std::chrono::milliseconds(20)));
  CHECK((*store)->queue_len("k") == 7);
}

TEST_CASE("store connection: connects by name and by IPv6 address") {
  const testing::ServerThread server("::");
  for (const char* host : {"localhost", "127.0.0.1", "::1"}) {
    INFO(host);
    const auto store = BlockingStore::connect(host, server.port(), kTimeout);
    REQUIRE(store);
    CHECK((*store)->add("n", 0) == 0);
  }
}
