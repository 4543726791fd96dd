// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/tcp_socket.hpp"

#include "io/connect.hpp"
#include "io/resolver.hpp"
#include "io/wait_ready.hpp"

#include <fmt/format.h>

#include <cerrno>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

namespace muster::collective {
namespace {

constexpr int kAskAfter = 5;  // seconds
constexpr int kAskEvery = 3;
constexpr int kAskTimes = 3;

// Any port works for a route lookup; 9 is the discard port.
constexpr std::uint16_t kDiscardPort = 9;

static_assert(std::chrono::seconds(kAskAfter + kAskEvery * kAskTimes) == kSilence);

// TCP_USER_TIMEOUT is not used, although keepalive pauses while data are in flight: that option
// would also kill connections to live ranks that do not read yet, such as those that are late for
// an operation.
constexpr KeepAlive kKeepAlive{
    .idle_seconds = kAskAfter, .interval_seconds = kAskEvery, .probes = kAskTimes};

}  // namespace

void prepare_connection(int fd) {
  // A rank waits for small messages, so the kernel must not delay them to collect more data.
  const int yes = 1;
  static_cast<void>(::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)));
  set_keepalive(fd, kKeepAlive);
}

Result<Listening> listen_at(const std::string& address, PortRange ports) {
  int why = EADDRINUSE;
  for (std::uint32_t port = ports.first; port <= ports.last && why == EADDRINUSE; ++port) {
    const auto at = SocketAddress::parse(address, static_cast<std::uint16_t>(port));
    if (!at) {
      return failure(Errc::invalid_argument, at.error().message);
    }
    auto fd = try_listen(*at);
    if (fd) {
      const std::uint16_t taken = local_address(fd->get()).port();
      return Listening{std::move(*fd), taken};
    }
    why = fd.error();
  }
  if (why == EADDRNOTAVAIL && address != "::") {
    return listen_at("::", ports);
  }
  // This host has no IPv6.
  if (why == EAFNOSUPPORT && address == "::") {
    return listen_at("0.0.0.0", ports);
  }
  const std::string where =
      ports.first == ports.last
          ? address
          : fmt::format("{}, ports {} to {}", address, ports.first, ports.last);
  return std::unexpected(system_failure("cannot listen for the other ranks on " + where, why));
}

Result<UniqueFd> connect_until(const std::string& address, std::uint16_t port, TimePoint deadline) {
  const auto to = SocketAddress::parse(address, port);
  if (!to) {
    return failure(Errc::invalid_argument, to.error().message);
  }
  auto fd = muster::connect_until(*to, deadline, {.keepalive = kKeepAlive});
  if (!fd) {
    return std::unexpected(system_failure("cannot connect to " + to->describe(), fd.error()));
  }
  return std::move(*fd);
}

bool send_all(int fd, std::span<const char> bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    const auto count = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    } else if (errno != EINTR && (errno != EAGAIN || !wait_ready(fd, POLLOUT, deadline))) {
      return false;
    }
  }
  return true;
}

std::string address_towards(const std::string& host, Duration timeout) {
  const auto addresses = resolve_blocking(host, timeout);
  for (std::size_t i = 0; addresses && i < addresses->size(); ++i) {
    // Take the first address with a route: a name may have addresses of a family that this host
    // cannot use.
    const auto there = SocketAddress::parse((*addresses)[i], kDiscardPort);
    const auto source = there ? source_towards(*there) : std::nullopt;
    if (source) {
      return source->host();
    }
  }
  return {};
}

}  // namespace muster::collective
