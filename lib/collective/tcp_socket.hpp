// SPDX-License-Identifier: Apache-2.0
// TCP sockets between ranks: listening, connecting, the first words on a connection. Blocking with
// a deadline; what comes out does not block.
#pragma once

#include "base/fd.hpp"
#include "base/time.hpp"
#include "collective/error.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace muster::collective {

// A host from which nothing comes for so long counts as gone: a machine without power, a cut link.
// The kernel asks on connections where nothing is under way, as on the control lane.
inline constexpr Duration kSilence = std::chrono::seconds(14);

struct Listening {
  UniqueFd fd;
  std::uint16_t port = 0;
};

// On all addresses of the machine, any free port.
[[nodiscard]] Result<Listening> listen_anywhere(int backlog);

// The next connection, not blocking, without Nagle; none (an empty descriptor) at the deadline.
[[nodiscard]] UniqueFd accept_until(int listener, TimePoint deadline);

// To a numeric address.
[[nodiscard]] Result<UniqueFd> connect_until(const std::string& address,
                                             std::uint16_t port,
                                             TimePoint deadline);

// All bytes; false: closed, or the deadline.
[[nodiscard]] bool send_all(int fd, std::span<const char> bytes, TimePoint deadline);
[[nodiscard]] bool receive_all(int fd, std::span<char> bytes, TimePoint deadline);

// The address of this machine that packets to `host` leave from; empty if it cannot be told.
[[nodiscard]] std::string address_towards(const std::string& host, Duration patience);

}  // namespace muster::collective
