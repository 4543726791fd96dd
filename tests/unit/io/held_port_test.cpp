// SPDX-License-Identifier: Apache-2.0
// Which binds and connections a held port prevents and which it permits, with other sockets.
#include "io/held_port.hpp"

#include "io/socket_address.hpp"
#include "support/catch.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace muster;

namespace {

UniqueFd socket_for(const std::string& address, bool reuse) {
  const int family = SocketAddress::parse(address, 0)->family();
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = reuse ? 1 : 0;
  REQUIRE(::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0);
  return fd;
}

// 0 or the errno.
int bind_to(const UniqueFd& fd, const std::string& address, std::uint16_t port) {
  const auto parsed = SocketAddress::parse(address, port);
  return ::bind(fd.get(), parsed->get(), parsed->size) == 0 ? 0 : errno;
}

int connect_to(const UniqueFd& fd, const std::string& address, std::uint16_t port) {
  const auto parsed = SocketAddress::parse(address, port);
  return ::connect(fd.get(), parsed->get(), parsed->size) == 0 ? 0 : errno;
}

HeldPort held(PortRange range = {}) {
  auto port = HeldPort::take(range);
  if (!port) {
    FAIL(port.error().message);
  }
  return std::move(*port);
}

// This many consecutive ports, all of which were free a moment ago.
PortRange free_range(std::uint16_t size) {
  for (std::uint16_t first = 21000; first < 32000;
       first = static_cast<std::uint16_t>(first + size)) {
    std::vector<HeldPort> all;
    const PortRange range{first, static_cast<std::uint16_t>(first + size - 1)};
    for (int i = 0; i < size; ++i) {
      if (auto port = HeldPort::take(range)) {
        all.push_back(std::move(*port));
      }
    }
    if (all.size() == size) {
      return range;
    }
  }
  FAIL("no free range");
  return {};
}

// A server on the port with one connection, which the server closes first, so that the kernel
// remembers its port for a minute.
void serve_one(const HeldPort& port) {
  const UniqueFd server = socket_for("127.0.0.1", true);
  REQUIRE(bind_to(server, "127.0.0.1", port.number()) == 0);
  REQUIRE(::listen(server.get(), 1) == 0);
  const UniqueFd client = socket_for("127.0.0.1", false);
  REQUIRE(connect_to(client, "127.0.0.1", port.number()) == 0);
  const UniqueFd accepted(::accept4(server.get(), nullptr, nullptr, SOCK_CLOEXEC));
  REQUIRE(accepted);
}

}  // namespace

TEST_CASE("held port: a server with SO_REUSEADDR can listen on it, on each address") {
  const HeldPort port = held();
  for (const char* address : {"127.0.0.1", "0.0.0.0", "::1", "::"}) {
    INFO(address);
    const UniqueFd server = socket_for(address, true);
    REQUIRE(bind_to(server, address, port.number()) == 0);
    REQUIRE(::listen(server.get(), 1) == 0);
    const bool is_v6 = std::string(address).find(':') != std::string::npos;
    const std::string there = is_v6 ? "::1" : "127.0.0.1";
    CHECK(connect_to(socket_for(there, false), there, port.number()) == 0);
  }
}

TEST_CASE("held port: another server can follow one that served connections") {
  const HeldPort port = held();
  for (int i = 0; i < 3; ++i) {
    serve_one(port);
  }
}

TEST_CASE("held port: a connection before there is a server is refused") {
  const HeldPort port = held();
  CHECK(connect_to(socket_for("127.0.0.1", false), "127.0.0.1", port.number()) == ECONNREFUSED);
  CHECK(connect_to(socket_for("::1", false), "::1", port.number()) == ECONNREFUSED);
}

TEST_CASE("held port: without SO_REUSEADDR no other socket can bind to it") {
  const HeldPort port = held();
  for (const char* address : {"127.0.0.1", "0.0.0.0", "::1", "::"}) {
    CHECK(bind_to(socket_for(address, false), address, port.number()) == EADDRINUSE);
  }
}

TEST_CASE("held port: the kernel never assigns it as an ephemeral port") {
  std::set<std::uint16_t> ours;
  std::vector<HeldPort> all;
  for (int i = 0; i < 200; ++i) {
    all.push_back(held());
    CHECK(ours.insert(all.back().number()).second);
  }
  for (int i = 0; i < 400; ++i) {
    const UniqueFd other = socket_for("127.0.0.1", i % 2 == 0);
    REQUIRE(bind_to(other, "127.0.0.1", 0) == 0);
    CHECK_FALSE(ours.contains(local_address(other.get()).port()));
  }
}

TEST_CASE("held port: each port of a range is used once, even while servers listen on them") {
  const PortRange range = free_range(4);
  std::vector<HeldPort> all;
  std::vector<UniqueFd> servers;
  std::set<std::uint16_t> numbers;
  for (int i = 0; i < 4; ++i) {
    all.push_back(held(range));
    const std::uint16_t number = all.back().number();
    CHECK(numbers.insert(number).second);
    CHECK((range.first <= number && number <= range.last));
    servers.push_back(socket_for("127.0.0.1", true));
    REQUIRE(bind_to(servers.back(), "127.0.0.1", number) == 0);
    REQUIRE(::listen(servers.back().get(), 1) == 0);
  }
  const auto fifth = HeldPort::take(range);
  REQUIRE_FALSE(fifth);
  CHECK(fifth.error().message == "all ports from " + std::to_string(range.first) + " to " +
                                     std::to_string(range.last) +
                                     " are in use. Widen --port-range, or stop the programs that "
                                     "use them");
  // A listener alone keeps its port as well.
  const std::uint16_t last = all.back().number();
  all.pop_back();
  CHECK_FALSE(HeldPort::take({last, last}));
  servers.pop_back();
  CHECK(HeldPort::take({last, last}));
}

TEST_CASE("held port: a port without a listener is not given to another launcher") {
  const PortRange range = free_range(1);
  const HeldPort port = held(range);
  CHECK_FALSE(HeldPort::take(range));
}

TEST_CASE("held port: a port with connections in TIME_WAIT can be held again") {
  const PortRange range = free_range(1);
  {
    const HeldPort port = held(range);
    serve_one(port);
  }
  CHECK(bind_to(socket_for("127.0.0.1", false), "127.0.0.1", range.first) == EADDRINUSE);
  CHECK(held(range).number() == range.first);
}

TEST_CASE("held port: programs do not inherit its descriptors") {
  const HeldPort port = held();
  int open = 0;
  for (int fd = 3; fd < 256; ++fd) {
    const SocketAddress address = local_address(fd);
    if (address.port() == port.number()) {
      ++open;
      CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    }
  }
  CHECK(open == 1);
}

// Separate processes, like launchers: each takes its ports and writes their numbers; none releases
// a port before all have written theirs.
TEST_CASE("held port: launchers that start together share a small range without a collision") {
  constexpr int kLaunchers = 32;
  constexpr int kPortsOfEach = 8;
  const PortRange range = free_range(kLaunchers * kPortsOfEach);
  std::array<int, 2> results{};
  std::array<int, 2> release{};
  REQUIRE(::pipe(results.data()) == 0);
  REQUIRE(::pipe(release.data()) == 0);
  std::vector<pid_t> children;
  for (int i = 0; i < kLaunchers; ++i) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ::close(release[1]);
      std::vector<HeldPort> all;
      for (int j = 0; j < kPortsOfEach; ++j) {
        auto port = HeldPort::take(range);
        const std::uint16_t number = port ? port->number() : 0;
        if (port) {
          all.push_back(std::move(*port));
        }
        static_cast<void>(::write(results[1], &number, sizeof(number)));
      }
      char none = 0;
      static_cast<void>(::read(release[0], &none, 1));
      ::_exit(0);
    }
    children.push_back(child);
  }
  std::set<std::uint16_t> numbers;
  for (int i = 0; i < kLaunchers * kPortsOfEach; ++i) {
    std::uint16_t number = 0;
    REQUIRE(::read(results[0], &number, sizeof(number)) == sizeof(number));
    CHECK(number != 0);
    numbers.insert(number);
  }
  CHECK(numbers.size() == kLaunchers * kPortsOfEach);
  for (const int fd : {results[0], results[1], release[0], release[1]}) {
    ::close(fd);
  }
  for (const pid_t child : children) {
    CHECK(::waitpid(child, nullptr, 0) == child);
  }
}

TEST_CASE("held port: a port that is also free for UDP") {
  const PortRange range = free_range(2);
  const auto bind_udp = [](std::uint16_t port) {
    UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    REQUIRE(bind_to(fd, "0.0.0.0", port) == 0);
    return fd;
  };
  const UniqueFd other = bind_udp(range.first);
  const auto port = HeldPort::take_with_udp(range);
  REQUIRE(port);
  CHECK(port->number() == range.last);
  const UniqueFd server = bind_udp(port->number());  // without SO_REUSEADDR
  CHECK_FALSE(HeldPort::take_with_udp(range));
  const auto tcp_only = HeldPort::take(range);
  REQUIRE(tcp_only);
  CHECK(tcp_only->number() == range.first);
}

TEST_CASE("held port: the kernel assigns the UDP port to no program") {
  std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");
  int first = 0;
  int last = 0;
  REQUIRE(file >> first >> last);
  if (last > 65000) {
    return;  // no port is left outside of the kernel's range
  }
  const auto one = HeldPort::take_with_udp({});
  const auto two = HeldPort::take_with_udp({});
  REQUIRE((one && two));
  CHECK(one->number() != two->number());
  CHECK(one->number() > last);
  CHECK(two->number() > last);
}
