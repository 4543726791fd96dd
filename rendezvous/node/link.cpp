// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/node/link.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace muster {
namespace {

// Maximum number of frames per system call.
constexpr std::size_t kFramesAtOnce = 64;

// Number of bytes encrypted at a time: the size of a TLS record. Encrypting a long list in pieces
// avoids a full copy for each of thousands of nodes.
constexpr std::size_t kSealedAtOnce = 64UL * 1024;
constexpr std::size_t kRecordBytes = 16UL * 1024;

void set_flag(int fd, int level, int name, int value) {
  // Setting these options cannot fail on a TCP socket, and the connection works without them.
  static_cast<void>(::setsockopt(fd, level, name, &value, sizeof(value)));
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
      // The cast is safe because the kernel does not modify the data it sends.
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

std::string_view LinkOutput::front() const {
  return std::string_view(*frames_[first_]).substr(sent_);
}

SharedFrame LinkOutput::take_front() {
  SharedFrame frame = frames_[first_];
  drop(front().size());
  return frame;
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

void release_some(Link& link) {
  std::size_t left = kSealedAtOnce;
  const bool can_seal = link.channel && link.channel->state() == SecureChannel::State::open;
  while (link.greeted && !link.waiting.empty() && left > 0) {
    if (link.channel && !can_seal) {
      break;
    }
    if (!link.channel) {
      // The limit does not apply, because a plaintext frame is moved without being copied.
      link.output.push(link.waiting.take_front());
      continue;
    }
    const std::string_view piece = link.waiting.front().substr(0, std::min(left, kRecordBytes));
    link.channel->seal(piece);
    left -= piece.size();
    link.waiting.drop(piece.size());
  }
  // This output is sent even before the link is greeted, because it may contain handshake messages
  // or a TLS alert.
  if (link.channel) {
    if (std::string sealed = link.channel->take_output(); !sealed.empty()) {
      link.output.push(std::make_shared<const std::string>(std::move(sealed)));
    }
  }
}

std::vector<SocketAddress> addresses_of(const std::vector<std::string>& hosts, std::uint16_t port) {
  std::vector<SocketAddress> out;
  for (const std::string& host : hosts) {
    if (const auto address = SocketAddress::parse(host, port)) {
      out.push_back(*address);
    }
  }
  return out;
}

LinkEnd end_of(int errno_value) {
  switch (errno_value) {
    // This error comes from the remote kernel, because finish_connect() maps a rejection by a
    // firewall to EHOSTUNREACH.
    case ECONNREFUSED:
      return LinkEnd::refused;
    // These errors do not prove that the agent's workers are dead, because the guard of a dead
    // agent may still be killing them.
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
      return LinkEnd::closed;
    default:
      return LinkEnd::unreachable;
  }
}

void set_user_timeout(int fd, Duration timeout) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count();
  set_flag(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(ms));
}

}  // namespace muster
