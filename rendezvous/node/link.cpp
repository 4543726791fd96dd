// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/node/link.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <linux/errqueue.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace muster {
namespace {

// Frames in one system call.
constexpr std::size_t kFramesAtOnce = 64;

void set_flag(int fd, int level, int name, int value) {
  // None of these can fail on a TCP socket; without them it would still work.
  static_cast<void>(::setsockopt(fd, level, name, &value, sizeof(value)));
}

// While connecting, an ICMP message that refuses is kept apart from a kernel's own refusal.
void keep_icmp(int fd, int family, bool keep) {
  set_flag(fd,
           family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6,
           family == AF_INET ? IP_RECVERR : IPV6_RECVERR,
           keep ? 1 : 0);
}

bool was_icmp(int fd) {
  std::array<char, 512> control{};
  msghdr message{};
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  if (::recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
    return false;
  }
  for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
    const bool v4 = one->cmsg_level == IPPROTO_IP && one->cmsg_type == IP_RECVERR;
    const bool v6 = one->cmsg_level == IPPROTO_IPV6 && one->cmsg_type == IPV6_RECVERR;
    if (v4 || v6) {
      sock_extended_err error{};
      std::copy_n(CMSG_DATA(one), sizeof(error), reinterpret_cast<unsigned char*>(&error));
      return error.ee_origin == SO_EE_ORIGIN_ICMP || error.ee_origin == SO_EE_ORIGIN_ICMP6;
    }
  }
  return false;
}

}  // namespace

void LinkOutput::push(SharedFrame frame) {
  bytes_ += frame->size();
  frames_.push_back(std::move(frame));
}

int LinkOutput::flush(int fd) {
  while (!empty()) {
    std::array<iovec, kFramesAtOnce> parts;
    const std::size_t count = std::min(kFramesAtOnce, frames_.size() - first_);
    for (std::size_t i = 0; i < count; ++i) {
      const std::string& frame = *frames_[first_ + i];
      const std::size_t skip = i == 0 ? sent_ : 0;
      // The kernel does not write into what it sends.
      parts[i] = {const_cast<char*>(frame.data()) + skip, frame.size() - skip};
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const auto sent = ::sendmsg(fd, &message, MSG_NOSIGNAL);
    if (sent < 0) {
      return errno == EAGAIN || errno == EINTR ? 0 : errno;
    }
    drop(static_cast<std::size_t>(sent));
  }
  return 0;
}

void LinkOutput::drop(std::size_t count) {
  bytes_ -= count;
  sent_ += count;
  while (first_ < frames_.size() && sent_ >= frames_[first_]->size()) {
    sent_ -= frames_[first_]->size();
    frames_[first_].reset();
    ++first_;
  }
  if (empty()) {
    frames_.clear();
    first_ = 0;
  } else if (first_ >= kFramesAtOnce) {
    frames_.erase(frames_.begin(), frames_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
}

LinkEnd end_of(int errno_value) {
  switch (errno_value) {
    case ECONNREFUSED:
      return LinkEnd::refused;
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
      return LinkEnd::closed;
    default:
      return LinkEnd::unreachable;
  }
}

Dialled dial(const SocketAddress& address, const std::optional<SocketAddress>& source) {
  Dialled out;
  out.fd = UniqueFd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!out.fd) {
    out.error = errno;
    return out;
  }
  const int fd = out.fd.get();
  set_flag(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_flag(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  keep_icmp(fd, address.family(), true);
  if (source && source->family() == address.family()) {
    set_flag(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    // If the address has gone, the kernel chooses another one.
    static_cast<void>(::bind(fd, source->get(), source->size));
  }
  out.error = ::connect(fd, address.get(), address.size) == 0 ? EINPROGRESS : errno;
  return out;
}

int outcome_of_dial(int fd) {
  int error = 0;
  socklen_t size = sizeof(error);
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
    return errno;
  }
  if (error == ECONNREFUSED && was_icmp(fd)) {
    return EHOSTUNREACH;
  }
  if (error != 0) {
    return error;
  }
  const SocketAddress here = local_address(fd);
  keep_icmp(fd, here.family(), false);
  return here.describe() == peer_address(fd).describe() ? ECONNREFUSED : 0;
}

void set_user_timeout(int fd, Duration timeout) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count();
  set_flag(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(ms));
}

}  // namespace muster
