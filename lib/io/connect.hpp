// SPDX-License-Identifier: Apache-2.0
// TCP connections: the one place that knows how a non-blocking connect begins and ends. Code that
// may block calls connect_until (store client, collective library); code on a loop calls
// start_connect, waits until the socket is writable, and calls finish_connect (links of nodes).
// Stateless.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"
#include "io/socket_address.hpp"

#include <expected>
#include <optional>

namespace muster {

// After so many seconds of silence the kernel asks whether the other side is still there, so often
// and in such intervals; then the connection is broken.
struct KeepAlive {
  int idle_seconds = 0;
  int interval_seconds = 0;
  int probes = 0;
};

void set_keepalive(int fd, const KeepAlive& keepalive);

struct ConnectOptions {
  // From this address of ours, if it is of the same version of IP.
  std::optional<SocketAddress> source = std::nullopt;
  // Instead of the system's two hours.
  std::optional<KeepAlive> keepalive = std::nullopt;
};

// A non-blocking socket without Nagle's delay, with an errno if connecting failed at once
// (EINPROGRESS: it did not).
struct Connecting {
  UniqueFd fd;
  int error = 0;
};

[[nodiscard]] Connecting start_connect(const SocketAddress& to, const ConnectOptions& options = {});

// What became of it once the socket is writable: 0 or the errno; EINPROGRESS: woken too early. A
// connection of a socket with itself, as happens on one machine where nobody listens, is
// ECONNREFUSED. A refusal by a firewall is EHOSTUNREACH: it says nothing about who listens there,
// and some callers take ECONNREFUSED as proof that nobody does.
[[nodiscard]] int finish_connect(int fd);

// A connected, non-blocking socket, or the errno: ETIMEDOUT at the deadline.
[[nodiscard]] std::expected<UniqueFd, int> connect_until(const SocketAddress& to,
                                                         TimePoint deadline,
                                                         const ConnectOptions& options = {});

// The errno of a connection that failed, for people. Codes: timed_out, unreachable, system.
[[nodiscard]] Error connect_error(const SocketAddress& to, int errno_value);

}  // namespace muster
