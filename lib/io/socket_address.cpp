// SPDX-License-Identifier: Apache-2.0
#include "io/socket_address.hpp"

#include "base/endpoint.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"

#include <array>
#include <cstddef>
#include <cstring>
#include <limits>
#include <net/if.h>

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

// inet_pton requires a terminated string, so text after a NUL byte would be ignored.
template <class Raw>
bool read_numeric(int family, std::string_view text, Raw& out) {
  std::array<char, INET6_ADDRSTRLEN> terminated{};
  if (text.size() >= terminated.size() || text.find('\0') != std::string_view::npos) {
    return false;
  }
  text.copy(terminated.data(), text.size());
  return ::inet_pton(family, terminated.data(), &out) == 1;
}

// The index of an existing interface, given its name or index; 0 if there is none. As in glibc, a
// name takes precedence, because an interface may be called "7".
std::uint32_t zone_index(std::string_view zone) {
  if (const std::uint32_t index = ::if_nametoindex(std::string(zone).c_str()); index != 0) {
    return index;
  }
  const bool is_digits = zone.find_first_not_of("0123456789") == std::string_view::npos;
  const auto number = is_digits ? parse_int(zone) : std::nullopt;
  const bool fits = number && *number > 0 && *number <= std::numeric_limits<std::int32_t>::max();
  std::array<char, IF_NAMESIZE> name{};
  const auto index = fits ? static_cast<std::uint32_t>(*number) : 0;
  return index != 0 && ::if_indextoname(index, name.data()) != nullptr ? index : 0;
}

// Formats the zone as "%eth0", or as its index if the interface no longer exists.
std::string zone_text(std::uint32_t index) {
  std::array<char, IF_NAMESIZE> name{};
  const bool exists = ::if_indextoname(index, name.data()) != nullptr;
  return "%" + (exists ? std::string(name.data()) : std::to_string(index));
}

std::unexpected<Error> refused(std::string_view text, std::string_view why) {
  return failure(Errc::usage, "'" + std::string(text) + "' " + std::string(why));
}

Result<SocketAddress> with_zone(sockaddr_in6 v6, std::string_view text, std::size_t percent) {
  if (percent != std::string_view::npos) {
    if (IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr) == 0) {
      return refused(text,
                     "has an interface, but only link-local addresses (fe80::…) may have one");
    }
    v6.sin6_scope_id = zone_index(text.substr(percent + 1));
    if (v6.sin6_scope_id == 0) {
      return refused(text, "names an interface that does not exist on this host");
    }
  }
  return wrap(v6);
}

std::string v6_text(const sockaddr_in6& v6) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  std::string out = text.data();
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) != 0) {
    constexpr std::string_view kMapped = "::ffff:";
    return out.substr(kMapped.size());
  }
  const bool scoped = IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr) != 0 && v6.sin6_scope_id != 0;
  return scoped ? out + zone_text(v6.sin6_scope_id) : out;
}

using Ask = int (*)(int, sockaddr*, socklen_t*);

SocketAddress address_by(Ask ask, int fd) {
  SocketAddress out;
  out.size = sizeof(out.storage);
  const bool known = ask(fd, reinterpret_cast<sockaddr*>(&out.storage), &out.size) == 0;
  return known ? out : SocketAddress{};
}

}  // namespace

Result<SocketAddress> SocketAddress::parse(std::string_view host, std::uint16_t port) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  if (read_numeric(AF_INET, host, v4.sin_addr)) {
    return wrap(v4);
  }
  const auto percent = host.find('%');
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  if (!read_numeric(AF_INET6, host.substr(0, percent), v6.sin6_addr)) {
    return refused(host, "is not a numeric address");
  }
  return with_zone(v6, host, percent);
}

std::optional<SocketAddress> SocketAddress::copy_of(const sockaddr& raw) {
  SocketAddress out;
  if (raw.sa_family != AF_INET && raw.sa_family != AF_INET6) {
    return std::nullopt;
  }
  out.size = raw.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::memcpy(&out.storage, &raw, out.size);
  return out;
}

std::string SocketAddress::host() const {
  if (family() == AF_INET6) {
    return v6_text(unwrap<sockaddr_in6>(*this));
  }
  if (family() != AF_INET) {
    return {};
  }
  std::array<char, INET_ADDRSTRLEN> text{};
  const auto v4 = unwrap<sockaddr_in>(*this);
  ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
  return text.data();
}

std::uint16_t SocketAddress::port() const {
  // The port is at the same offset in both families.
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  return ntohs(unwrap<sockaddr_in>(*this).sin_port);
}

std::string SocketAddress::describe() const {
  return Endpoint{host(), port()}.describe();
}

bool SocketAddress::is_link_local() const {
  const auto v6 = unwrap<sockaddr_in6>(*this);
  return family() == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr) != 0;
}

// Ignores the IPv6 flow label because it does not identify the peer.
bool SocketAddress::operator==(const SocketAddress& other) const {
  if (family() != other.family() || port() != other.port()) {
    return false;
  }
  if (family() == AF_INET) {
    return unwrap<sockaddr_in>(*this).sin_addr.s_addr == unwrap<sockaddr_in>(other).sin_addr.s_addr;
  }
  const auto mine = unwrap<sockaddr_in6>(*this);
  const auto yours = unwrap<sockaddr_in6>(other);
  return mine.sin6_scope_id == yours.sin6_scope_id &&
         std::memcmp(&mine.sin6_addr, &yours.sin6_addr, sizeof(mine.sin6_addr)) == 0;
}

bool is_numeric_address(std::string_view text) {
  in_addr v4{};
  in6_addr v6{};
  return read_numeric(AF_INET, text, v4) ||
         read_numeric(AF_INET6, text.substr(0, text.find('%')), v6);
}

std::string with_our_interface(const std::string& theirs, const std::string& ours) {
  const auto at = theirs.find('%');
  const auto from = ours.find('%');
  const bool both = at != std::string::npos && from != std::string::npos;
  return both ? theirs.substr(0, at) + ours.substr(from) : theirs;
}

SocketAddress local_address(int fd) {
  return address_by(
      [](int of, sockaddr* out, socklen_t* size) { return ::getsockname(of, out, size); }, fd);
}

SocketAddress peer_address(int fd) {
  return address_by(
      [](int of, sockaddr* out, socklen_t* size) { return ::getpeername(of, out, size); }, fd);
}

// Connecting a datagram socket sends nothing; it only makes the kernel choose a route.
std::optional<SocketAddress> source_towards(const SocketAddress& there) {
  const UniqueFd fd(::socket(there.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd || ::connect(fd.get(), there.get(), there.size) != 0) {
    return std::nullopt;
  }
  const SocketAddress here = local_address(fd.get());
  return here.size == 0 ? std::nullopt : std::optional(here);
}

}  // namespace muster
