// SPDX-License-Identifier: Apache-2.0
// One client connection of the load generator: blocking helpers for setup, non-blocking sends and
// receives for the measured part. Called by load, storm and stream. Resource type.
#pragma once

#include "apps/muster-bench/dialect.hpp"
#include "base/error.hpp"
#include "base/fd.hpp"

#include <cstdint>
#include <string>

namespace muster::bench {

// A blocking TCP connection to 127.0.0.1 with TCP_NODELAY. Closing it leaves no TIME_WAIT state, so
// that tens of thousands of connections do not exhaust the ports.
[[nodiscard]] Result<UniqueFd> connect_to(std::uint16_t port);

// Sends the request and compares the answer byte for byte, or only its length if it is not exact.
[[nodiscard]] Result<void> converse(int fd, const Exchange& step);

// Sends all bytes and waits for buffer space if necessary.
[[nodiscard]] Result<void> send_all(int fd, std::string_view bytes);

// Receives the next `size` bytes. Error: closed, timed_out (10 s).
[[nodiscard]] Result<std::string> receive(int fd, std::size_t size);

}  // namespace muster::bench
