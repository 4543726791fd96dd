// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client/store_connection.hpp"

#include "base/clock.hpp"
#include "base/endpoint.hpp"
#include "io/resolver.hpp"
#include "rendezvous/client/backoff.hpp"
#include "rendezvous/wire/store_encoder.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <net/if.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace muster {
namespace {

// One address of several must not use up all the patience: its packets may be lost for ever.
constexpr Duration kOneAttempt = std::chrono::seconds(5);

constexpr std::size_t kReadBytes = 16UL * 1024;

// Milliseconds for poll, rounded up so that it does not wake too early and spin.
int until(TimePoint deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

// Whether the descriptor gets ready for `events` before the deadline.
bool ready(int fd, short events, TimePoint deadline) {
  while (true) {
    pollfd watched{fd, events, 0};
    const int wait = until(deadline);
    const int count = ::poll(&watched, 1, wait);
    if (count > 0) {
      return true;
    }
    if (count == 0 && steady_now() >= deadline) {
      return false;
    }
  }
}

void pause_until(TimePoint when) {
  while (steady_now() < when) {
    static_cast<void>(::poll(nullptr, 0, until(when)));
  }
}

void prepare(int fd) {
  // Without keep-alive a WAIT on a machine that lost its power would last for ever.
  const auto set = [fd](int level, int name, int value) {
    static_cast<void>(::setsockopt(fd, level, name, &value, sizeof(value)));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

SocketAddress socket_address(const std::string& address, std::uint16_t port) {
  SocketAddress out;
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  if (::inet_pton(AF_INET, address.c_str(), &v4.sin_addr) == 1) {
    std::memcpy(&out.storage, &v4, sizeof(v4));
    out.size = sizeof(v4);
    return out;
  }
  const auto percent = address.find('%');
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  if (::inet_pton(AF_INET6, address.substr(0, percent).c_str(), &v6.sin6_addr) == 1) {
    if (percent != std::string::npos) {
      v6.sin6_scope_id = ::if_nametoindex(address.substr(percent + 1).c_str());
    }
    std::memcpy(&out.storage, &v6, sizeof(v6));
    out.size = sizeof(v6);
  }
  return out;
}

Error closed_by_server(int errno_value) {
  const std::string why = errno_value == 0 ? "" : ": " + errno_words(errno_value);
  return Error{
      Errc::closed,
      "the store closed the connection" + why + " (it has ended, or refused the last request)"};
}

}  // namespace

Result<StoreConnection> StoreConnection::open(const std::string& host,
                                              std::uint16_t port,
                                              Duration patience) {
  const TimePoint start = steady_now();
  const TimePoint deadline = start + patience;
  Backoff backoff(static_cast<std::uint64_t>(::getpid()) ^
                  static_cast<std::uint64_t>(start.time_since_epoch().count()));
  bool with_ping = true;
  while (true) {
    auto connection = try_once(host, port, with_ping, deadline);
    if (connection || connection.error().code == Errc::usage) {
      return connection;
    }
    if (connection.error().code == Errc::closed) {
      // PyTorch 2.1 to 2.4 know no PING and close on it.
      with_ping = !with_ping;
    }
    const TimePoint again = steady_now() + backoff.next();
    if (again >= deadline) {
      return failure(Errc::unreachable,
                     "cannot reach the store at " + Endpoint{host, port}.describe() + " within " +
                         describe(patience) + ": " + connection.error().message);
    }
    pause_until(again);
  }
}

Result<StoreConnection> StoreConnection::try_once(const std::string& host,
                                                  std::uint16_t port,
                                                  bool with_ping,
                                                  TimePoint deadline) {
  const auto addresses =
      resolve_blocking(host, std::max(deadline - steady_now(), Duration::zero()));
  if (!addresses) {
    return std::unexpected(addresses.error());
  }
  Error last{Errc::unreachable, "no address"};
  for (const std::string& address : *addresses) {
    const TimePoint limit = std::min(deadline, steady_now() + kOneAttempt);
    auto fd = connect_to(address, port, limit);
    if (!fd) {
      last = fd.error();
      continue;
    }
    StoreConnection connection(std::move(*fd));
    auto greeted = connection.greet(with_ping, limit);
    if (greeted) {
      return connection;
    }
    last = greeted.error();
  }
  return std::unexpected(last);
}

Result<UniqueFd> StoreConnection::connect_to(const std::string& address,
                                             std::uint16_t port,
                                             TimePoint deadline) {
  const SocketAddress target = socket_address(address, port);
  if (target.size == 0) {
    return failure(Errc::usage, "'" + address + "' is no address");
  }
  UniqueFd fd(::socket(target.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) {
    return std::unexpected(system_error("making a socket", errno));
  }
  prepare(fd.get());
  const auto* raw = reinterpret_cast<const sockaddr*>(&target.storage);
  int why = ::connect(fd.get(), raw, target.size) == 0 ? 0 : errno;
  if (why == EINPROGRESS || why == EINTR) {
    if (!ready(fd.get(), POLLOUT, deadline)) {
      return failure(Errc::timed_out, "no answer from " + address);
    }
    socklen_t size = sizeof(why);
    static_cast<void>(::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &why, &size));
  }
  if (why != 0) {
    return std::unexpected(Error{Errc::unreachable, errno_words(why)});
  }
  return fd;
}

Result<void> StoreConnection::greet(bool with_ping, TimePoint deadline) {
  const auto nonce = static_cast<std::uint32_t>(::getpid());
  std::string hello;
  if (with_ping) {
    append_greeting(hello, nonce);
  } else {
    RequestWriter(hello, Opcode::validate).word(kValidateMagic);
    RequestWriter(hello, Opcode::check).keys({});
  }
  if (auto sent = send(hello, deadline); !sent) {
    return sent;
  }
  const auto answer = receive(with_ping ? sizeof(nonce) : 1, deadline);
  if (!answer) {
    return std::unexpected(answer.error());
  }
  const bool right = with_ping ? load_int<std::uint32_t>(*answer) == nonce
                               : load_int<std::uint8_t>(*answer) == kCheckReady;
  if (!right) {
    return failure(Errc::protocol, "what answers there is not a store");
  }
  return {};
}

Result<void> StoreConnection::send(std::string_view bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    const auto count = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {
      if (!ready(fd_.get(), POLLOUT, deadline)) {
        return failure(Errc::timed_out, "the store takes no more requests");
      }
    } else if (errno != EINTR) {
      return std::unexpected(closed_by_server(errno));
    }
  }
  return {};
}

Result<bool> StoreConnection::await(std::size_t size, TimePoint deadline) {
  std::array<char, kReadBytes> buffer;
  while (input_.size() < size) {
    const auto count = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (count > 0) {
      input_.append(buffer.data(), static_cast<std::size_t>(count));
    } else if (count < 0 && errno == EAGAIN) {
      if (!ready(fd_.get(), POLLIN, deadline)) {
        return false;
      }
    } else if (count == 0 || errno != EINTR) {
      return std::unexpected(closed_by_server(count == 0 ? 0 : errno));
    }
  }
  return true;
}

Result<std::string> StoreConnection::receive(std::size_t size, TimePoint deadline) {
  const auto came = await(size, deadline);
  if (!came) {
    return std::unexpected(came.error());
  }
  if (!*came) {
    return failure(Errc::timed_out, "the store does not answer");
  }
  std::string out = input_.substr(0, size);
  input_.erase(0, size);
  return out;
}

}  // namespace muster
