// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/tcp_message.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <sys/uio.h>

namespace muster::collective {
namespace {

struct MessageHead {
  std::uint64_t count;
  std::uint64_t dtype;
};

class Message final : public Transfer {
 public:
  Message(Mesh& mesh, const Request& request)
      : mesh_(mesh),
        request_(request),
        head_{request.count, static_cast<std::uint64_t>(request.dtype)},
        bytes_(sizeof(head_) + request.count * size_of(request.dtype)) {}

  [[nodiscard]] Result<Step> step() override {
    const bool sends = request_.kind == Kind::send;
    const ssize_t moved = sends ? send_some() : receive_some();
    if (moved < 0 && (errno == EAGAIN || errno == EINTR)) {
      return Step::stuck;
    }
    // A receive of 0 bytes is the end of the stream.
    if (moved < 0 || (moved == 0 && !sends)) {
      return std::unexpected(mesh_.closed(collective::Step(request_), request_.root));
    }
    at_ += static_cast<std::size_t>(moved);
    // The length is known from our own call, since both ranks must pass the same count and type.
    if (!sends && at_ >= sizeof(head_) && !fits()) {
      return std::unexpected(mismatch());
    }
    return at_ == bytes_ ? Step::done : Step::moved;
  }

 private:
  // `root` is the other rank of a send or receive.
  [[nodiscard]] int fd() const { return mesh_.fd(request_.root, Lane::message); }

  [[nodiscard]] ssize_t send_some() {
    // Send header and data in one call: with TCP_NODELAY, two calls would send two packets.
    iovec parts[2] = {};
    int count = 0;
    if (at_ < sizeof(head_)) {
      parts[count++] = {reinterpret_cast<char*>(&head_) + at_, sizeof(head_) - at_};
    }
    const std::size_t from = at_ < sizeof(head_) ? 0 : at_ - sizeof(head_);
    if (from < bytes_ - sizeof(head_)) {
      // iovec has no const pointer, but nothing writes to this memory.
      parts[count++] = {const_cast<char*>(static_cast<const char*>(request_.in)) + from,
                        bytes_ - sizeof(head_) - from};
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = static_cast<std::size_t>(count);
    return ::sendmsg(fd(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  }

  // Receive the header alone first, because the data go into the buffer only if they fit.
  [[nodiscard]] ssize_t receive_some() {
    if (at_ < sizeof(head_)) {
      return ::recv(fd(), reinterpret_cast<char*>(&came_) + at_, sizeof(head_) - at_, MSG_DONTWAIT);
    }
    return ::recv(
        fd(), static_cast<char*>(request_.out) + (at_ - sizeof(head_)), bytes_ - at_, MSG_DONTWAIT);
  }

  [[nodiscard]] bool fits() const {
    return came_.count == head_.count && came_.dtype == head_.dtype;
  }

  [[nodiscard]] Error mismatch() const {
    Error error{.code = Errc::mismatch, .rank = request_.root, .seq = request_.seq};
    error.text = fmt::format("the ranks disagree: rank {} sent {}[{}], rank {} called {}",
                             request_.root,
                             name_of(static_cast<DType>(came_.dtype)),
                             came_.count,
                             mesh_.rank(),
                             request_.describe());
    mesh_.report(error);
    return mesh_.failure().value_or(error);
  }

  Mesh& mesh_;
  Request request_;
  MessageHead head_;
  MessageHead came_{};
  std::size_t bytes_;
  std::size_t at_ = 0;
};

}  // namespace

std::unique_ptr<Transfer> make_message(Mesh& mesh, const Request& request) {
  return std::make_unique<Message>(mesh, request);
}

}  // namespace muster::collective
