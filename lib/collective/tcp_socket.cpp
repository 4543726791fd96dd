// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp_socket.hpp"

#include "base/clock.hpp"
#include "io/resolver.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace muster::collective {
namespace {

constexpr int kAskAfter = 5;  // s
constexpr int kAskEvery = 3;
constexpr int kAskTimes = 3;

static_assert(std::chrono::seconds(kAskAfter + kAskEvery * kAskTimes) == kSilence);

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

Address parse(const std::string& text, std::uint16_t port) {
  Address out;
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    std::memcpy(&out.storage, &v4, sizeof(v4));
    out.size = sizeof(v4);
  } else if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    std::memcpy(&out.storage, &v6, sizeof(v6));
    out.size = sizeof(v6);
  }
  return out;
}

const sockaddr* raw(const Address& address) {
  return reinterpret_cast<const sockaddr*>(&address.storage);
}

bool ready(int fd, short events, TimePoint deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_now()).count();
    pollfd watched{fd, events, 0};
    const int count =
        ::poll(&watched, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000)));
    if (count > 0) {
      return true;
    }
    if (count == 0 && steady_now() >= deadline) {
      return false;
    }
  }
}

void prepare(int fd) {
  const auto set = [fd](int level, int name, int value) {
    static_cast<void>(::setsockopt(fd, level, name, &value, sizeof(value)));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  // Not TCP_USER_TIMEOUT, although keepalive waits while data are under way: it also ends the
  // connection to a rank that lives and does not read, as ranks do that come late to an operation.
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kAskAfter);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kAskEvery);
  set(IPPROTO_TCP, TCP_KEEPCNT, kAskTimes);
}

}  // namespace

Result<Listening> listen_anywhere(int backlog) {
  for (const int family : {AF_INET6, AF_INET}) {  // IPv6 takes both, where there is one
    UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    Address address = parse(family == AF_INET6 ? "::" : "0.0.0.0", 0);
    const int both = 0;
    if (fd && family == AF_INET6) {
      static_cast<void>(::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof(both)));
    }
    if (!fd || ::bind(fd.get(), raw(address), address.size) != 0 ||
        ::listen(fd.get(), backlog) != 0) {
      continue;
    }
    socklen_t size = sizeof(address.storage);
    static_cast<void>(
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address.storage), &size));
    // The port is at the same place in both.
    sockaddr_in v4{};
    std::memcpy(&v4, &address.storage, sizeof(v4));
    return Listening{std::move(fd), ntohs(v4.sin_port)};
  }
  return std::unexpected(system_failure("listening for the other ranks", errno));
}

UniqueFd accept_until(int listener, TimePoint deadline) {
  while (ready(listener, POLLIN, deadline)) {
    UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) {
      prepare(fd.get());
      return fd;
    }
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
      break;
    }
  }
  return {};
}

Result<UniqueFd> connect_until(const std::string& address, std::uint16_t port, TimePoint deadline) {
  const Address to = parse(address, port);
  if (to.size == 0) {
    return failure(Errc::invalid_argument, "'" + address + "' is no numeric address");
  }
  UniqueFd fd(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return std::unexpected(system_failure("making a socket", errno));
  }
  prepare(fd.get());
  int why = ::connect(fd.get(), raw(to), to.size) == 0 ? 0 : errno;
  if (why == EINPROGRESS || why == EINTR) {
    socklen_t size = sizeof(why);
    why = ETIMEDOUT;
    if (ready(fd.get(), POLLOUT, deadline)) {
      static_cast<void>(::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &why, &size));
    }
  }
  if (why != 0) {
    return std::unexpected(
        system_failure("connecting to " + address + " port " + std::to_string(port), why));
  }
  return fd;
}

bool send_all(int fd, std::span<const char> bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    const auto count = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    } else if (errno != EINTR && (errno != EAGAIN || !ready(fd, POLLOUT, deadline))) {
      return false;
    }
  }
  return true;
}

bool receive_all(int fd, std::span<char> bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    const auto count = ::recv(fd, bytes.data(), bytes.size(), 0);
    if (count > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    } else if (count == 0 ||
               (errno != EINTR && (errno != EAGAIN || !ready(fd, POLLIN, deadline)))) {
      return false;
    }
  }
  return true;
}

std::string address_towards(const std::string& host, Duration patience) {
  const auto addresses = resolve_blocking(host, patience);
  for (std::size_t i = 0; addresses && i < addresses->size(); ++i) {
    const Address to = parse((*addresses)[i], 9);
    const UniqueFd fd(::socket(to.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    Address from;
    socklen_t size = sizeof(from.storage);
    if (to.size == 0 || !fd || ::connect(fd.get(), raw(to), to.size) != 0 ||
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&from.storage), &size) != 0) {
      continue;
    }
    std::array<char, INET6_ADDRSTRLEN> text{};
    sockaddr_in v4{};
    sockaddr_in6 v6{};
    std::memcpy(&v4, &from.storage, sizeof(v4));
    std::memcpy(&v6, &from.storage, sizeof(v6));
    const void* const bytes = v4.sin_family == AF_INET ? static_cast<const void*>(&v4.sin_addr)
                                                       : static_cast<const void*>(&v6.sin6_addr);
    if (::inet_ntop(v4.sin_family, bytes, text.data(), text.size()) != nullptr) {
      return text.data();
    }
  }
  return {};
}

}  // namespace muster::collective
