// SPDX-License-Identifier: Apache-2.0
// Passes descriptors between processes, over sockets with abstract names (not in the file system).
// Such a name disappears when its socket is closed, and is visible only in its network namespace.
#pragma once

#include "base/fd.hpp"

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <sys/socket.h>
#include <sys/un.h>

namespace muster {

struct UnixAddress {
  sockaddr_un storage{};
  socklen_t size = 0;

  [[nodiscard]] const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// Truncates names longer than 107 bytes.
[[nodiscard]] UnixAddress abstract_address(std::string_view name);

// The peer's pid and user at the time when the peer connected or started to listen.
[[nodiscard]] std::optional<ucred> peer_of(int fd);

inline constexpr std::size_t kMostPassedFds = 8;

// Sends one message with at most kMostPassedFds descriptors, either completely or not at all. Never
// blocks.
[[nodiscard]] bool send_with_fds(int to, std::span<const char> data, std::span<const int> fds);

struct Received {
  std::size_t bytes = 0;  // 0 if the other end closed the socket or the call failed
  std::vector<UniqueFd> fds;
};

// Receives the available bytes and their descriptors. Blocks if the socket is blocking.
[[nodiscard]] Received receive_some_with_fds(int from, std::span<char> data);

// Blocks if the socket is blocking. Empty if the message does not have exactly this size or carries
// no descriptors.
[[nodiscard]] std::vector<UniqueFd> receive_with_fds(int from, std::span<char> data);

}  // namespace muster
