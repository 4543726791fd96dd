// SPDX-License-Identifier: Apache-2.0
// TCP connections: implements non-blocking connect. Code that may block calls connect_until (store
// client, collective library); code on a loop calls start_connect, waits until the socket is
// writable, and calls finish_connect (links of nodes). Stateless.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"
#include "io/socket_address.hpp"

#include <expected>
#include <optional>

namespace muster {

// After `idle_seconds` of silence the kernel sends `probes` keepalive probes at intervals of
// `interval_seconds`, then breaks the connection.
struct KeepAlive {
  int idle_seconds = 0;
  int interval_seconds = 0;
  int probes = 0;
};

void set_keepalive(int fd, const KeepAlive& keepalive);

struct ConnectOptions {
  // Source address, if it has the same IP version.
  std::optional<SocketAddress> source = std::nullopt;
  // Instead of the system's default of two hours.
  std::optional<KeepAlive> keepalive = std::nullopt;
};

// A non-blocking socket with TCP_NODELAY, and an errno if connecting failed at once (EINPROGRESS if
// it did not).
struct Connecting {
  UniqueFd fd;
  int error = 0;
};

[[nodiscard]] Connecting start_connect(const SocketAddress& to, const ConnectOptions& options = {});

// The result of connecting, once the socket is writable: 0 or the errno; EINPROGRESS if woken too
// early. A socket connected to itself, which can happen on one host without a listener, is
// ECONNREFUSED. A refusal by a firewall is EHOSTUNREACH, because some callers take ECONNREFUSED as
// proof that there is no listener.
[[nodiscard]] int finish_connect(int fd);

// Returns a connected, non-blocking socket, or the errno: ETIMEDOUT at the deadline.
[[nodiscard]] std::expected<UniqueFd, int> connect_until(const SocketAddress& to,
                                                         TimePoint deadline,
                                                         const ConnectOptions& options = {});

// Turns the errno of a failed connection into a message. Codes: timed_out, unreachable, system.
[[nodiscard]] Error connect_error(const SocketAddress& to, int errno_value);

}  // namespace muster
