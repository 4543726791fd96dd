// SPDX-License-Identifier: Apache-2.0
// Descriptors from one process to another, over sockets whose names are not in the file system (the
// "abstract" ones): they are gone with the socket and end at the network namespace.
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

// What is longer than 107 bytes is cut.
[[nodiscard]] UnixAddress abstract_address(std::string_view name);

// Who connected, or listened: its process and user then.
[[nodiscard]] std::optional<ucred> peer_of(int fd);

inline constexpr std::size_t kMostPassedFds = 8;

// One message, at once or not at all; at most kMostPassedFds.
[[nodiscard]] bool send_with_fds(int to, std::span<const char> data, std::span<const int> fds);

struct Received {
  std::size_t bytes = 0;  // 0: the other end is closed, or it failed
  std::vector<UniqueFd> fds;
};

// What is there, with its descriptors. Blocks as the socket does.
[[nodiscard]] Received receive_some_with_fds(int from, std::span<char> data);

// Blocks as the socket does. Nothing where the message is not of just these bytes, or has no
// descriptors.
[[nodiscard]] std::vector<UniqueFd> receive_with_fds(int from, std::span<char> data);

}  // namespace muster
