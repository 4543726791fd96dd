// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/server.hpp"

#include "rendezvous/client/blocking_store.hpp"
#include "server_thread.hpp"
#include "support/catch.hpp"
#include "support/hex.hpp"

#include <array>
#include <future>

#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>

using namespace muster;
using testing::from_hex;
using testing::ServerThread;

namespace {

constexpr Duration kTimeout = std::chrono::seconds(30);

// A raw connection, for bytes that our clients would never send.
UniqueFd raw_connection(std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  const timeval timeout{30, 0};
  REQUIRE(::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) == 0);
  return fd;
}

void send_all(const UniqueFd& fd, const std::string& bytes) {
  REQUIRE(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(bytes.size()));
}

bool is_closed_by_server(const UniqueFd& fd) {
  char byte = 0;
  const auto count = ::recv(fd.get(), &byte, 1, 0);
  return count == 0 || (count < 0 && errno == ECONNRESET);
}

}  // namespace

TEST_CASE("server: the port is bound from open() on, and free afterwards") {
  asio::io_context loop(1);
  std::uint16_t port = 0;
  {
    auto server = StoreServer::open(loop, "127.0.0.1", 0);
    REQUIRE(server);
    port = (*server)->port();
    auto second = StoreServer::open(loop, "127.0.0.1", port);
    REQUIRE_FALSE(second);
    CHECK(second.error().code == Errc::system);
  }
  CHECK(StoreServer::open(loop, "127.0.0.1", port));
  loop.poll();
}

TEST_CASE("server: can be stopped from within the loop while clients are connected") {
  asio::io_context loop(1);
  auto server = StoreServer::open(loop, "127.0.0.1", 0);
  REQUIRE(server);
  const UniqueFd client = raw_connection((*server)->port());
  send_all(client, from_hex("00CEF7853C 0D 01020304"));
  asio::post(loop, [&] { server->reset(); });
  loop.run();
  CHECK(is_closed_by_server(client));
}

TEST_CASE("server: reports and closes a client that exceeds a limit") {
  std::promise<std::string> said;
  const ServerThread server("127.0.0.1", 0, [&](const std::string& text) { said.set_value(text); });
  const UniqueFd client = raw_connection(server.port());
  send_all(client, from_hex("00CEF7853C 03 0120000000000000"));
  CHECK(is_closed_by_server(client));
  const std::string text = said.get_future().get();
  CHECK(text.starts_with("closed the session of 127.0.0.1:"));
  CHECK(text.ends_with(": GET with a key of 8193 bytes; the limit is 8192"));
}

TEST_CASE("server: silently closes a connection that is not a client") {
  bool said = false;
  {
    const ServerThread server("127.0.0.1", 0, [&](const std::string&) { said = true; });
    const UniqueFd client = raw_connection(server.port());
    send_all(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK(is_closed_by_server(client));
  }
  CHECK_FALSE(said);
}

TEST_CASE("server: hands over a node's connection with the bytes read so far, but not a worker's") {
  asio::io_context loop(1);
  auto server = StoreServer::open(loop, "127.0.0.1", 0);
  REQUIRE(server);
  UniqueFd adopted;
  std::string bytes;
  (*server)->set_adopter([&](UniqueFd fd, const std::string& read) {
    adopted = std::move(fd);
    bytes = read;
  });
  const UniqueFd worker = raw_connection((*server)->port());
  send_all(worker, from_hex("00CEF7853C 0D 01020304"));
  const UniqueFd node = raw_connection((*server)->port());
  send_all(node, "\xA7MUSTER and more");
  while (!adopted) {
    loop.run_one();
  }
  CHECK(bytes == "\xA7MUSTER and more");
  send_all(adopted, "answer");
  std::array<char, 6> answer{};
  CHECK(::recv(node.get(), answer.data(), answer.size(), MSG_WAITALL) == 6);
  std::array<char, 4> pong{};
  CHECK(::recv(worker.get(), pong.data(), pong.size(), MSG_WAITALL) == 4);
  // Later in a session that byte has no special meaning.
  send_all(worker, "\xA7MUSTER");
  server->reset();
  CHECK(is_closed_by_server(worker));
}

TEST_CASE("server: without descriptors new clients wait until some are free") {
  const ServerThread server;
  auto first = BlockingStore::connect("127.0.0.1", server.port(), kTimeout);
  REQUIRE(first);
  std::vector<UniqueFd> waiting;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  {
    // The sockets are created before the limit is lowered, because the test shares the limit with
    // the server.
    for (int i = 0; i < 4; ++i) {
      waiting.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    }
    const rlimit none{static_cast<rlim_t>(waiting.back().get() + 1), before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(server.port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (const UniqueFd& fd : waiting) {
    CHECK(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
    send_all(fd, from_hex("00CEF7853C 0D 01020304"));
  }
  // Existing connections are served as before.
  for (int i = 0; i < 100; ++i) {
    CHECK((*first)->add("n", 1) == i + 1);
  }
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  for (const UniqueFd& fd : waiting) {
    std::string echo(4, '\0');
    CHECK(::recv(fd.get(), echo.data(), echo.size(), MSG_WAITALL) == 4);
    CHECK(echo == from_hex("01020304"));
  }
}
