// SPDX-License-Identifier: Apache-2.0
// Establishes non-blocking TCP connections. Code that may block calls connect_until (the store
// client, the collective library). Code on a loop (links between nodes) calls start_connect, waits
// until the socket is writable, and calls finish_connect. Stateless.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"
#include "io/socket_address.hpp"

#include <expected>
#include <optional>

namespace muster {

// After `idle_seconds` without traffic the kernel sends `probes` keepalive probes at intervals of
// `interval_seconds`. If no probe is answered, the kernel closes the connection.
struct KeepAlive {
  int idle_seconds = 0;
  int interval_seconds = 0;
  int probes = 0;
};

void set_keepalive(int fd, const KeepAlive& keepalive);

struct ConnectOptions {
  // The source address; ignored if its IP version differs.
  std::optional<SocketAddress> source = std::nullopt;
  // Replaces the system's default of two hours.
  std::optional<KeepAlive> keepalive = std::nullopt;
};

// A non-blocking socket with TCP_NODELAY, and the errno: EINPROGRESS unless connecting failed
// immediately.
struct Connecting {
  UniqueFd fd;
  int error = 0;
};

[[nodiscard]] Connecting start_connect(const SocketAddress& to, const ConnectOptions& options = {});

// The result of connecting, once the socket is writable: 0 or an errno. EINPROGRESS if called too
// early, ECONNABORTED if the socket was shut down meanwhile. A socket connected to itself, which
// can happen on one host without a listener, yields ECONNREFUSED. A refusal by a firewall yields
// EHOSTUNREACH, because some callers treat ECONNREFUSED as proof that there is no listener.
[[nodiscard]] int finish_connect(int fd);

// Returns a connected, non-blocking socket, or an errno: ETIMEDOUT at the deadline.
[[nodiscard]] std::expected<UniqueFd, int> connect_until(const SocketAddress& to,
                                                         TimePoint deadline,
                                                         const ConnectOptions& options = {});

// Converts the errno of a failed connection to an error. Codes: timed_out, unreachable, system.
[[nodiscard]] Error connect_error(const SocketAddress& to, int errno_value);

}  // namespace muster
