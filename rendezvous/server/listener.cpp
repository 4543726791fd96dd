// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/listener.hpp"

#include "base/endpoint.hpp"
#include "io/port_claim.hpp"

#include <cerrno>
#include <optional>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace muster {
namespace {

// The kernel caps this at net.core.somaxconn. A thousand workers may connect at the same time.
constexpr int kBacklog = 65535;

void set_flag(int fd, int level, int name, int value) {
  // Setting these options cannot fail on a TCP socket, and the socket works without them.
  static_cast<void>(::setsockopt(fd, level, name, &value, sizeof(value)));
}

// Accepted sockets inherit these options, which saves system calls for each connection.
void prepare(int fd, int family) {
  set_flag(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_flag(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  if (family == AF_INET6) {
    set_flag(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  }
}

std::string advice_for(int errno_value) {
  if (errno_value == EADDRINUSE) {
    return "; stop the program that uses it, or use port 0 for any free port";
  }
  if (errno_value == EADDRNOTAVAIL) {
    return "; this host has no such address: use a local address, or :: for all";
  }
  return errno_value == EACCES ? "; ports below 1024 need privileges: use a higher one" : "";
}

std::unexpected<Error> not_listening(const Endpoint& endpoint, int why) {
  Error error = system_error("cannot listen on " + endpoint.describe(), why);
  error.message += advice_for(why);
  return std::unexpected(std::move(error));
}

std::unexpected<Error> cannot_parse(const Error& error) {
  return failure(error.code, "cannot listen: " + error.message);
}

std::unexpected<Error> range_taken(const std::string& address, PortRange range) {
  return failure(Errc::system,
                 "cannot listen on " + address + ": every port from " +
                     std::to_string(range.first) + " to " + std::to_string(range.last) +
                     " is in use; widen --port-range, or stop the programs that use them");
}

// Returns 0 or the errno.
int bind_one(int fd, const std::string& address, std::uint16_t port) {
  const auto parsed = SocketAddress::parse(address, port);
  return ::bind(fd, parsed->get(), parsed->size) == 0 ? 0 : errno;
}

// The port must remain claimed until we listen. A port that a launcher reserves for its workers can
// be bound with SO_REUSEADDR, so it would seem to be free. Ports chosen by the kernel (0) need no
// claim.
using MaybeClaim = std::optional<PortClaim>;

// Returns 0 or the errno.
int claim_port(std::uint16_t port, MaybeClaim& claim) {
  claim.reset();
  if (port == 0) {
    return 0;
  }
  auto taken = PortClaim::take(port);
  if (!taken) {
    return taken.error();
  }
  claim = std::move(*taken);
  return 0;
}

// Returns 0 if a port in the range was bound, and EADDRINUSE if none is free.
int bind_in_range(int fd, const std::string& address, PortRange range, MaybeClaim& claim) {
  int why = EADDRINUSE;
  for (std::uint32_t port = range.first; port <= range.last && why == EADDRINUSE; ++port) {
    const auto number = static_cast<std::uint16_t>(port);
    why = claim_port(number, claim);
    if (why == 0) {
      why = bind_one(fd, address, number);
    }
  }
  return why;
}

}  // namespace

std::expected<UniqueFd, int> try_listen(const SocketAddress& address) {
  UniqueFd fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd) {
    prepare(fd.get(), address.family());
    set_flag(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  }
  if (!fd || ::bind(fd.get(), address.get(), address.size) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return std::unexpected(errno);
  }
  return fd;
}

Result<UniqueFd> listen_on(const std::string& address, std::uint16_t port) {
  const auto parsed = SocketAddress::parse(address, port);
  if (!parsed) {
    return cannot_parse(parsed.error());
  }
  auto fd = try_listen(*parsed);
  if (!fd && fd.error() == EAFNOSUPPORT && address == "::") {
    return listen_on("0.0.0.0", port);
  }
  if (!fd) {
    return not_listening({address, port}, fd.error());
  }
  return std::move(*fd);
}

Result<UniqueFd> listen_in_range(const std::string& address, PortRange range) {
  MaybeClaim claim;
  for (std::uint32_t port = range.first; port <= range.last; ++port) {
    const auto number = static_cast<std::uint16_t>(port);
    const auto parsed = SocketAddress::parse(address, number);
    if (!parsed) {
      return cannot_parse(parsed.error());
    }
    if (const int why = claim_port(number, claim); why != 0) {
      if (why == EADDRINUSE) {
        continue;
      }
      return not_listening({address, number}, why);
    }
    auto fd = try_listen(*parsed);
    if (fd) {
      return std::move(*fd);
    }
    if (fd.error() != EADDRINUSE) {
      return listen_on(address, number);
    }
  }
  return range_taken(address, range);
}

Result<UniqueFd> make_unbound_socket(int family) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) {
    return std::unexpected(system_error("cannot create a socket", errno));
  }
  prepare(fd.get(), family);
  return fd;
}

// A socket can be bound only once. With SO_REUSEADDR, two processes that start at the same time
// might both bind a port on which only one of them can listen, and the other could not try the next
// port. Therefore completely unused ports are tried first.
Result<void> listen_with(int fd, const std::string& address, PortRange range) {
  if (const auto parsed = SocketAddress::parse(address, 0); !parsed) {
    return cannot_parse(parsed.error());
  }
  MaybeClaim claim;
  int why = bind_in_range(fd, address, range, claim);
  if (why == EADDRINUSE) {
    set_flag(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    why = bind_in_range(fd, address, range, claim);
  }
  if (why == 0 && ::listen(fd, kBacklog) != 0) {
    why = errno;
  }
  if (why == EADDRINUSE) {
    return range_taken(address, range);
  }
  if (why != 0) {
    return not_listening({address, range.first}, why);
  }
  return {};
}

std::uint16_t port_of(int fd) {
  return local_address(fd).port();
}

std::string describe_peer(int fd) {
  const SocketAddress peer = peer_address(fd);
  return peer.size == 0 ? "a disconnected client" : peer.describe();
}

}  // namespace muster
