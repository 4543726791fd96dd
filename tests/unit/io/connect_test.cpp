// SPDX-License-Identifier: Apache-2.0
#include "io/connect.hpp"

#include "base/clock.hpp"
#include "private_etc.hpp"
#include "support/catch.hpp"

#include <array>
#include <cerrno>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

using namespace muster;
using namespace std::chrono_literals;

namespace {

struct Listener {
  explicit Listener(const SocketAddress& at, int backlog = 8)
      : fd(::socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    REQUIRE(::bind(fd.get(), at.get(), at.size) == 0);
    REQUIRE(::listen(fd.get(), backlog) == 0);
    address = local_address(fd.get());
  }

  UniqueFd fd;
  SocketAddress address;
};

SocketAddress loopback(std::uint16_t port = 0) {
  return *SocketAddress::parse("127.0.0.1", port);
}

// A port of 127.0.0.1 on which no process listens.
SocketAddress nobody() {
  return Listener(loopback()).address;
}

// Its backlog is full, so its kernel drops packets, like a dead machine.
struct Deaf : Listener {
  Deaf() : Listener(loopback(), 0) {
    for (int i = 0; i < 4; ++i) {
      queue.push_back(start_connect(address));
    }
  }

  std::vector<Connecting> queue;
};

int option(int fd, int level, int name) {
  int value = -1;
  socklen_t size = sizeof(value);
  REQUIRE(::getsockopt(fd, level, name, &value, &size) == 0);
  return value;
}

}  // namespace

TEST_CASE("connect: reaches a listener, with a non-blocking socket") {
  const Listener listener(loopback());
  const KeepAlive often{.idle_seconds = 7, .interval_seconds = 5, .probes = 3};
  const auto fd = connect_until(listener.address, steady_now() + 30s, {.keepalive = often});
  REQUIRE(fd);
  CHECK(peer_address(fd->get()) == listener.address);
  std::array<char, 1> byte{};
  CHECK(::recv(fd->get(), byte.data(), byte.size(), 0) == -1);
  CHECK(errno == EAGAIN);
  CHECK(option(fd->get(), IPPROTO_TCP, TCP_NODELAY) == 1);
  CHECK(option(fd->get(), SOL_SOCKET, SO_KEEPALIVE) == 1);
  CHECK(option(fd->get(), IPPROTO_TCP, TCP_KEEPIDLE) == 7);
  CHECK(option(fd->get(), IPPROTO_TCP, TCP_KEEPINTVL) == 5);
  CHECK(option(fd->get(), IPPROTO_TCP, TCP_KEEPCNT) == 3);
}

TEST_CASE("connect: a port without a listener fails at once, with the reason") {
  const SocketAddress there = nobody();
  const auto fd = connect_until(there, steady_now() + 30s);
  REQUIRE_FALSE(fd);
  CHECK(fd.error() == ECONNREFUSED);
  CHECK(connect_error(there, fd.error()) == Error{Errc::unreachable, "Connection refused"});
}

TEST_CASE("connect: an address that does not answer takes its deadline and no longer") {
  const Deaf deaf;
  const TimePoint start = steady_now();
  const auto fd = connect_until(deaf.address, start + 50ms);
  REQUIRE_FALSE(fd);
  CHECK(steady_now() - start >= 50ms);
  CHECK(fd.error() == ETIMEDOUT);
  CHECK(connect_error(deaf.address, fd.error()) ==
        Error{Errc::timed_out, "no response from 127.0.0.1"});
}

TEST_CASE("connect: a socket that is shut down before it is used fails at once") {
  const Deaf deaf;
  const int waiting = deaf.queue.back().fd.get();
  CHECK(finish_connect(waiting) == EINPROGRESS);
  REQUIRE(::shutdown(waiting, SHUT_RDWR) == 0);
  CHECK(finish_connect(waiting) == ECONNRESET);

  const Listener listener(loopback());
  const Connecting connected = start_connect(listener.address);
  REQUIRE(::shutdown(connected.fd.get(), SHUT_RDWR) == 0);
  const UniqueFd accepted(::accept(listener.fd.get(), nullptr, nullptr));
  REQUIRE(::shutdown(accepted.get(), SHUT_RDWR) == 0);
  int error = 0;  // until the kernel has exchanged the last packets
  while (error == 0) {
    error = finish_connect(connected.fd.get());
  }
  CHECK(error == ECONNABORTED);
}

TEST_CASE("connect: a socket that is connected to itself has reached no listener") {
  const SocketAddress itself = nobody();
  const auto fd = connect_until(itself, steady_now() + 30s, {.source = itself});
  REQUIRE_FALSE(fd);
  CHECK(fd.error() == ECONNREFUSED);
}

TEST_CASE("connect: uses the requested source address") {
  const Listener listener(loopback());
  const auto source = SocketAddress::parse("127.0.0.3", 0);
  const auto fd = connect_until(listener.address, steady_now() + 30s, {.source = *source});
  REQUIRE(fd);
  CHECK(local_address(fd->get()).host() == "127.0.0.3");
  const auto other_family = SocketAddress::parse("::1", 0);
  CHECK(connect_until(listener.address, steady_now() + 30s, {.source = *other_family}));
}

TEST_CASE("connect: reaches a link-local address only through its interface") {
  add_link_local_interface();
  const std::string own = "fe80::1%muster0";
  const Listener listener(*SocketAddress::parse(own, 0));
  CHECK(listener.address.host() == own);
  const auto fd =
      connect_until(*SocketAddress::parse(own, listener.address.port()), steady_now() + 30s);
  REQUIRE(fd);
  CHECK(peer_address(fd->get()).host() == own);
  const std::string without = "fe80::1";
  const auto nowhere = *SocketAddress::parse(without, listener.address.port());
  const auto lost = connect_until(nowhere, steady_now() + 30s);
  REQUIRE_FALSE(lost);
  CHECK(connect_error(nowhere, lost.error()).message ==
        without + " is a link-local address and needs its interface, such as fe80::1%eth0");
}
