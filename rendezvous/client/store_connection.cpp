// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client/store_connection.hpp"

#include "base/clock.hpp"
#include "base/endpoint.hpp"
#include "io/connect.hpp"
#include "io/resolver.hpp"
#include "io/wait_ready.hpp"
#include "rendezvous/client/backoff.hpp"
#include "rendezvous/wire/store_encoder.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace muster {
namespace {

// Time limit for one address, so that an address that drops packets does not use up the whole
// timeout.
constexpr Duration kOneAttempt = std::chrono::seconds(5);

constexpr std::size_t kReadBytes = 16UL * 1024;

// Without keepalive probes, a WAIT would never return if the server's host lost power.
constexpr KeepAlive kKeepAlive{.idle_seconds = 30, .interval_seconds = 10, .probes = 3};

void pause_until(TimePoint when) {
  while (steady_now() < when) {
    static_cast<void>(::poll(nullptr, 0, poll_timeout(when)));
  }
}

Error closed_by_server(int errno_value) {
  const std::string why = errno_value == 0 ? "" : ": " + errno_text(errno_value);
  return Error{
      Errc::closed,
      "the store closed the connection" + why + " (it has exited, or refused the last request)"};
}

}  // namespace

Result<StoreConnection> StoreConnection::open(const std::string& host,
                                              std::uint16_t port,
                                              Duration timeout) {
  const TimePoint start = steady_now();
  const TimePoint deadline = start + timeout;
  Backoff backoff(static_cast<std::uint64_t>(::getpid()) ^
                  static_cast<std::uint64_t>(start.time_since_epoch().count()));
  bool with_ping = true;
  while (true) {
    auto connection = try_once(host, port, with_ping, deadline);
    if (connection || connection.error().code == Errc::usage) {
      return connection;
    }
    if (connection.error().code == Errc::closed) {
      // Servers from PyTorch 2.1 to 2.4 do not support PING and close the connection, so every
      // second attempt omits PING.
      with_ping = !with_ping;
    }
    const TimePoint again = steady_now() + backoff.next();
    if (again >= deadline) {
      return failure(Errc::unreachable,
                     "cannot reach the store at " + Endpoint{host, port}.describe() + " within " +
                         describe(timeout) + ": " + connection.error().message);
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
  MUSTER_RETURN_IF_ERROR(addresses);
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
  const auto target = SocketAddress::parse(address, port);
  MUSTER_RETURN_IF_ERROR(target);
  auto fd = connect_until(*target, deadline, {.keepalive = kKeepAlive});
  if (!fd) {
    return std::unexpected(connect_error(*target, fd.error()));
  }
  return std::move(*fd);
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
  MUSTER_RETURN_IF_ERROR(answer);
  const bool right = with_ping ? load_int<std::uint32_t>(*answer) == nonce
                               : load_int<std::uint8_t>(*answer) == kCheckReady;
  if (!right) {
    return failure(Errc::protocol, "the other end is not a store");
  }
  return {};
}

Result<void> StoreConnection::send(std::string_view bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    const auto count = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {
      if (!wait_ready(fd_.get(), POLLOUT, deadline)) {
        return failure(Errc::timed_out, "the store stopped reading requests");
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
      if (!wait_ready(fd_.get(), POLLIN, deadline)) {
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
  MUSTER_RETURN_IF_ERROR(came);
  if (!*came) {
    return failure(Errc::timed_out, "the store does not answer");
  }
  std::string out = input_.substr(0, size);
  input_.erase(0, size);
  return out;
}

}  // namespace muster
