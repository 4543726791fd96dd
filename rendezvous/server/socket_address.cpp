// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/socket_address.hpp"

#include "base/endpoint.hpp"

#include <array>
#include <cstring>
#include <net/if.h>
#include <string_view>

#include <arpa/inet.h>
#include <netinet/in.h>

namespace muster {
namespace {

template <class Specific>
SocketAddress wrap(const Specific& specific) {
  SocketAddress out;
  std::memcpy(&out.storage, &specific, sizeof(specific));
  out.size = sizeof(specific);
  return out;
}

template <class Specific>
Specific unwrap(const SocketAddress& address) {
  Specific out{};
  std::memcpy(&out, &address.storage, sizeof(out));
  return out;
}

std::optional<SocketAddress> parse_v4(const std::string& text, std::uint16_t port) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) != 1) {
    return std::nullopt;
  }
  return wrap(v4);
}

// "fe80::1%eth0" has the scope of an interface.
std::optional<SocketAddress> parse_v6(const std::string& text, std::uint16_t port) {
  const auto percent = text.find('%');
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  if (::inet_pton(AF_INET6, text.substr(0, percent).c_str(), &v6.sin6_addr) != 1) {
    return std::nullopt;
  }
  if (percent != std::string::npos) {
    v6.sin6_scope_id = ::if_nametoindex(text.substr(percent + 1).c_str());
  }
  return wrap(v6);
}

std::string zone_of(const sockaddr_in6& v6) {
  std::array<char, IF_NAMESIZE> name{};
  const bool has_zone = IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr) != 0 && v6.sin6_scope_id != 0 &&
                        ::if_indextoname(v6.sin6_scope_id, name.data()) != nullptr;
  return has_zone ? std::string("%") + name.data() : std::string();
}

}  // namespace

std::optional<SocketAddress> SocketAddress::parse(const std::string& host, std::uint16_t port) {
  auto v4 = parse_v4(host, port);
  return v4 ? v4 : parse_v6(host, port);
}

std::string SocketAddress::host() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (family() == AF_INET) {
    const auto v4 = unwrap<sockaddr_in>(*this);
    ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return text.data();
  }
  if (family() != AF_INET6) {
    return {};
  }
  const auto v6 = unwrap<sockaddr_in6>(*this);
  ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  constexpr std::string_view kMapped = "::ffff:";
  const std::string_view numeric = text.data();
  const bool mapped = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) != 0;
  return std::string(mapped ? numeric.substr(kMapped.size()) : numeric) + zone_of(v6);
}

std::uint16_t SocketAddress::port() const {
  // The port has the same place in both families.
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  return ntohs(unwrap<sockaddr_in>(*this).sin_port);
}

std::string SocketAddress::describe() const {
  return Endpoint{host(), port()}.describe();
}

SocketAddress local_address(int fd) {
  SocketAddress out;
  out.size = sizeof(out.storage);
  const bool known = ::getsockname(fd, reinterpret_cast<sockaddr*>(&out.storage), &out.size) == 0;
  return known ? out : SocketAddress{};
}

SocketAddress peer_address(int fd) {
  SocketAddress out;
  out.size = sizeof(out.storage);
  const bool known = ::getpeername(fd, reinterpret_cast<sockaddr*>(&out.storage), &out.size) == 0;
  return known ? out : SocketAddress{};
}

}  // namespace muster
