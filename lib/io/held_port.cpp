// SPDX-License-Identifier: Apache-2.0
#include "io/held_port.hpp"

#include "io/socket_address.hpp"

#include <cerrno>
#include <expected>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace muster {
namespace {

// On each try the kernel chooses a port, but another launcher may be probing the same port.
constexpr int kTriesForAny = 64;
constexpr std::uint16_t kLastPort = std::numeric_limits<std::uint16_t>::max();

using Sharing = HeldPort::Sharing;

using Bound = std::expected<UniqueFd, int>;  // the error is the errno

void set_option(int fd, int level, int name, int value) {
  // The options used in this file cannot fail on a TCP or UDP socket.
  static_cast<void>(::setsockopt(fd, level, name, &value, sizeof(value)));
}

// Binds to the wildcard address, so that the port is taken on every address.
Bound bind_on(const std::string& all, std::uint16_t port, Sharing sharing, int type = SOCK_STREAM) {
  const auto address = SocketAddress::parse(all, port);
  UniqueFd fd(::socket(address->family(), type | SOCK_CLOEXEC, 0));
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

// True if a UDP server can bind to the port on every address.
bool is_free_for_udp(std::uint16_t port) {
  const auto fd = bind_on("::", port, Sharing::none, SOCK_DGRAM);
  const bool is_ipv4_only = !fd && fd.error() == EAFNOSUPPORT;
  return fd || (is_ipv4_only && bind_on("0.0.0.0", port, Sharing::none, SOCK_DGRAM));
}

// The kernel chooses ports in this range for bind() to port 0 and for connect().
PortRange automatic_ports() {
  constexpr PortRange kDefault{32768, 60999};
  std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");
  PortRange out;
  return file >> out.first >> out.last && out.first <= out.last ? out : kDefault;
}

std::uint32_t size_of(PortRange range) {
  return range.last - range.first + 1U;
}

// Launchers begin at different ports, so that a port is not reused soon.
std::uint16_t start_in(PortRange range) {
  return static_cast<std::uint16_t>(range.first +
                                    static_cast<std::uint32_t>(::getpid()) % size_of(range));
}

std::unexpected<Error> cannot_hold(int why) {
  return std::unexpected(system_error("cannot reserve a port", why));
}

using Held = HeldPort::Held;

std::expected<Held, int> hold_one(std::uint16_t port, Sharing sharing) {
  auto claim = PortClaim::take(port);
  MUSTER_RETURN_IF_ERROR(claim);
  auto socket = bind_all(port, sharing);
  MUSTER_RETURN_IF_ERROR(socket);
  return Held{std::move(*claim), std::move(*socket)};
}

std::expected<Held, int> hold_with_udp(std::uint16_t port, Sharing sharing) {
  auto held = hold_one(port, sharing);
  return held && !is_free_for_udp(port) ? std::unexpected(EADDRINUSE) : std::move(held);
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
  return range == PortRange{} ? take_any() : take_in(range, range.first, hold_one);
}

Result<HeldPort> HeldPort::take_with_udp(PortRange range) {
  if (range != PortRange{}) {
    return take_in(range, range.first, hold_with_udp);
  }
  const PortRange automatic = automatic_ports();
  if (automatic.last < kLastPort) {
    const PortRange above{static_cast<std::uint16_t>(automatic.last + 1), kLastPort};
    if (auto port = take_in(above, start_in(above), hold_with_udp)) {
      return port;
    }
  }
  return take_in(automatic, start_in(automatic), hold_with_udp);
}

// Tries the ports from `start` on, then those before it.
Result<HeldPort> HeldPort::take_in(PortRange range, std::uint16_t start, Hold hold) {
  const std::uint32_t size = size_of(range);
  for (const Sharing sharing : {Sharing::none, Sharing::others}) {
    for (std::uint32_t i = 0; i < size; ++i) {
      const std::uint32_t index = (start - range.first + i) % size;
      const auto number = static_cast<std::uint16_t>(range.first + index);
      auto held = hold(number, sharing);
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
