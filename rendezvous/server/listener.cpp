// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/listener.hpp"

#include "base/endpoint.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <net/if.h>
#include <optional>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace muster {
namespace {

// The system lowers it to net.core.somaxconn; a thousand workers connect at the same moment.
constexpr int kBacklog = 65535;

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

std::optional<Address> parse_v4(const std::string& text, std::uint16_t port) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) != 1) {
    return std::nullopt;
  }
  Address out;
  std::memcpy(&out.storage, &v4, sizeof(v4));
  out.size = sizeof(v4);
  return out;
}

// "fe80::1%eth0" has the scope of an interface.
std::optional<Address> parse_v6(const std::string& text, std::uint16_t port) {
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
  Address out;
  std::memcpy(&out.storage, &v6, sizeof(v6));
  out.size = sizeof(v6);
  return out;
}

void set_flag(int fd, int level, int name, int value) {
  // None of these can fail on a TCP socket; without them it would still work.
  static_cast<void>(::setsockopt(fd, level, name, &value, sizeof(value)));
}

// An accepted socket inherits these, which saves system calls for each connection.
void prepare(int fd, int family) {
  set_flag(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  set_flag(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_flag(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  if (family == AF_INET6) {
    set_flag(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  }
}

std::string advice_for(int errno_value) {
  if (errno_value == EADDRINUSE) {
    return "; another program has it: stop that one, or use port 0 for any free port";
  }
  if (errno_value == EADDRNOTAVAIL) {
    return "; this machine has no such address: use one of its own, or :: for all";
  }
  return errno_value == EACCES ? "; ports below 1024 need privileges: use a higher one" : "";
}

}  // namespace

Result<UniqueFd> listen_on(const std::string& address, std::uint16_t port) {
  auto parsed = parse_v4(address, port);
  if (!parsed) {
    parsed = parse_v6(address, port);
  }
  if (!parsed) {
    return failure(Errc::usage, "cannot listen on '" + address + "': not a numeric address");
  }
  const int family = parsed->storage.ss_family;
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd && errno == EAFNOSUPPORT && address == "::") {
    return listen_on("0.0.0.0", port);
  }
  if (fd) {
    prepare(fd.get(), family);
  }
  if (!fd || ::bind(fd.get(), parsed->get(), parsed->size) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    const int why = errno;
    Error error = system_error("cannot listen on " + Endpoint{address, port}.describe(), why);
    error.message += advice_for(why);
    return std::unexpected(std::move(error));
  }
  return fd;
}

std::uint16_t port_of(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    return 0;
  }
  // The port has the same place in both families.
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  sockaddr_in v4{};
  std::memcpy(&v4, &storage, sizeof(v4));
  return ntohs(v4.sin_port);
}

std::string describe_peer(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    return "a client that is gone";
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (storage.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &storage, sizeof(v4));
    ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return Endpoint{text.data(), ntohs(v4.sin_port)}.describe();
  }
  sockaddr_in6 v6{};
  std::memcpy(&v6, &storage, sizeof(v6));
  ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  constexpr std::string_view kMapped = "::ffff:";
  const std::string_view numeric = text.data();
  const bool mapped = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) != 0;
  const std::string host(mapped ? numeric.substr(kMapped.size()) : numeric);
  return Endpoint{host, ntohs(v6.sin6_port)}.describe();
}

}  // namespace muster
