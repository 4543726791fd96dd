// SPDX-License-Identifier: Apache-2.0
#include "io/held_port.hpp"

#include "io/socket_address.hpp"

#include <cerrno>
#include <expected>
#include <string>
#include <utility>

#include <netinet/in.h>
#include <sys/socket.h>

namespace muster {
namespace {

// On each try the kernel chooses a port, but another launcher may be probing the same port.
constexpr int kTriesForAny = 64;

enum class Sharing {
  none,    // fails if any other socket is bound to the port
  others,  // fails only if another socket listens on it
};

using Bound = std::expected<UniqueFd, int>;  // the error is the errno

void set_option(int fd, int level, int name, int value) {
  // The options used in this file cannot fail on a TCP socket.
  static_cast<void>(::setsockopt(fd, level, name, &value, sizeof(value)));
}

// Binds to the wildcard address, so that the port is taken on every address.
Bound bind_on(const std::string& all, std::uint16_t port, Sharing sharing) {
  const auto address = SocketAddress::parse(all, port);
  UniqueFd fd(::socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd && address->family() == AF_INET6) {
    set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  }
  if (fd && sharing == Sharing::others) {
    set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  }
  if (!fd || ::bind(fd.get(), address->get(), address->size) != 0) {
    return std::unexpected(errno);
  }
  // From now on, a server that also sets SO_REUSEADDR can bind to the port.
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  return fd;
}

// If an earlier server's connections are in TIME_WAIT, the port can only be bound with
// SO_REUSEADDR, as a server binds it (`others`). The kernel then refuses to bind the port if
// another socket listens on it.
Bound bind_all(std::uint16_t port, Sharing sharing) {
  auto fd = bind_on("::", port, sharing);
  return fd || fd.error() != EAFNOSUPPORT ? std::move(fd) : bind_on("0.0.0.0", port, sharing);
}

std::unexpected<Error> cannot_hold(int why) {
  return std::unexpected(system_error("cannot reserve a port", why));
}

// A claimed and bound port.
struct Held {
  PortClaim claim;
  UniqueFd socket;
};

std::expected<Held, int> hold_one(std::uint16_t port, Sharing sharing) {
  auto claim = PortClaim::take(port);
  MUSTER_RETURN_IF_ERROR(claim);
  auto socket = bind_all(port, sharing);
  MUSTER_RETURN_IF_ERROR(socket);
  return Held{std::move(*claim), std::move(*socket)};
}

}  // namespace

Result<HeldPort> HeldPort::take_any() {
  for (int i = 0; i < kTriesForAny; ++i) {
    auto fd = bind_all(0, Sharing::none);
    if (!fd) {
      return cannot_hold(fd.error());
    }
    const std::uint16_t number = local_address(fd->get()).port();
    auto claim = PortClaim::take(number);
    if (claim) {
      return HeldPort(std::move(*claim), std::move(*fd), number);
    }
    if (claim.error() != EADDRINUSE) {
      return cannot_hold(claim.error());
    }
  }
  return cannot_hold(EADDRINUSE);
}

Result<HeldPort> HeldPort::take(PortRange range) {
  if (range == PortRange{}) {
    return take_any();
  }
  for (const Sharing sharing : {Sharing::none, Sharing::others}) {
    for (std::uint32_t port = range.first; port <= range.last; ++port) {
      const auto number = static_cast<std::uint16_t>(port);
      auto held = hold_one(number, sharing);
      if (held) {
        return HeldPort(std::move(held->claim), std::move(held->socket), number);
      }
      if (held.error() != EADDRINUSE) {
        return cannot_hold(held.error());
      }
    }
  }
  return failure(Errc::system,
                 "all ports from " + std::to_string(range.first) + " to " +
                     std::to_string(range.last) +
                     " are in use. Widen --port-range, or stop the programs that use them");
}

}  // namespace muster
