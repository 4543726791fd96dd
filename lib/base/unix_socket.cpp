// SPDX-License-Identifier: Apache-2.0
#include "base/unix_socket.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

namespace muster {
namespace {

// A message with space for descriptors.
struct Message {
  iovec data{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostPassedFds * sizeof(int))> control{};
  msghdr header{};

  explicit Message(std::span<char> bytes) : data{bytes.data(), bytes.size()} {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
};

}  // namespace

UnixAddress abstract_address(std::string_view name) {
  UnixAddress out;
  out.storage.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof(out.storage.sun_path) - 1);
  std::memcpy(out.storage.sun_path + 1, name.data(), length);
  out.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return out;
}

std::optional<ucred> peer_of(int fd) {
  ucred who{};
  socklen_t size = sizeof(who);
  const bool known = ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0;
  return known ? std::optional(who) : std::nullopt;
}

bool send_with_fds(int to, std::span<const char> data, std::span<const int> fds) {
  if (fds.empty() || fds.size() > kMostPassedFds) {
    return false;
  }
  // The data is not modified, but iovec is not const-correct.
  Message message({const_cast<char*>(data.data()), data.size()});
  message.header.msg_controllen = CMSG_SPACE(fds.size_bytes());
  cmsghdr* const part = CMSG_FIRSTHDR(&message.header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(fds.size_bytes());
  std::memcpy(CMSG_DATA(part), fds.data(), fds.size_bytes());
  const auto sent = ::sendmsg(to, &message.header, MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent == static_cast<ssize_t>(data.size());
}

namespace {

std::vector<UniqueFd> fds_in(msghdr& header) {
  const cmsghdr* const part = CMSG_FIRSTHDR(&header);
  if (part == nullptr || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
    return {};
  }
  std::array<int, kMostPassedFds> numbers{};
  const std::size_t bytes = std::min(part->cmsg_len - CMSG_LEN(0), sizeof(numbers));
  std::memcpy(numbers.data(), CMSG_DATA(part), bytes);
  std::vector<UniqueFd> fds;
  for (std::size_t i = 0; i < bytes / sizeof(int); ++i) {
    fds.emplace_back(numbers[i]);
  }
  return fds;
}

}  // namespace

Received receive_some_with_fds(int from, std::span<char> data) {
  Message message(data);
  const auto got = ::recvmsg(from, &message.header, MSG_CMSG_CLOEXEC);
  return got > 0 ? Received{static_cast<std::size_t>(got), fds_in(message.header)} : Received{};
}

std::vector<UniqueFd> receive_with_fds(int from, std::span<char> data) {
  Message message(data);
  const auto got = ::recvmsg(from, &message.header, MSG_CMSG_CLOEXEC);
  std::vector<UniqueFd> fds = got > 0 ? fds_in(message.header) : std::vector<UniqueFd>{};
  const bool whole = got == static_cast<ssize_t>(data.size()) &&
                     (message.header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  return whole ? std::move(fds) : std::vector<UniqueFd>{};
}

}  // namespace muster
