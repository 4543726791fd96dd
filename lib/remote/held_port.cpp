// SPDX-License-Identifier: Apache-2.0
#include "remote/held_port.hpp"

#include "base/text.hpp"

#include <cerrno>
#include <limits>
#include <string>

#include <netinet/in.h>
#include <sys/socket.h>

namespace muster {
namespace {

// On all addresses, of both families where there are both.
Result<HeldPort> bind_any(int family, std::uint16_t port) {
  HeldPort held{UniqueFd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)), 0};
  sockaddr_storage address{};
  auto& v4 = reinterpret_cast<sockaddr_in&>(address);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
  socklen_t size = family == AF_INET ? sizeof(v4) : sizeof(v6);
  address.ss_family = static_cast<sa_family_t>(family);
  (family == AF_INET ? v4.sin_port : v6.sin6_port) = htons(port);
  const int off = 0;
  const int on = 1;
  if (family == AF_INET6) {
    ::setsockopt(held.socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  if (!held.socket ||
      ::bind(held.socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    return std::unexpected(system_error("binding a port for the rendezvous", errno));
  }
  // Only now: with it, two that look for a port at the same moment could both be bound to one.
  ::setsockopt(held.socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  ::getsockname(held.socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  held.port = ntohs(family == AF_INET ? v4.sin_port : v6.sin6_port);
  return held;
}

Result<HeldPort> bind_port(std::uint16_t port) {
  auto held = bind_any(AF_INET6, port);
  return held ? std::move(held) : bind_any(AF_INET, port);
}

}  // namespace

Result<HeldPort> hold_port(std::string_view range) {
  if (range.empty()) {
    return bind_port(0);
  }
  const auto ends = split(range, '-');
  const auto first = parse_int(ends.front());
  const auto last = parse_int(ends.back());
  const bool is_range = ends.size() == 2 && first && last && *first > 0 && *first <= *last &&
                        *last <= std::numeric_limits<std::uint16_t>::max();
  if (!is_range) {
    return failure(Errc::usage, "--port-range=" + std::string(range) + ": must be A-B");
  }
  for (std::int64_t port = *first; port <= *last; ++port) {
    if (auto held = bind_port(static_cast<std::uint16_t>(port))) {
      return held;
    }
  }
  return failure(Errc::system, "--port-range=" + std::string(range) + ": no port of it is free");
}

}  // namespace muster
