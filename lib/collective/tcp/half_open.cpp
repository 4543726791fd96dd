// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/half_open.hpp"

#include "base/clock.hpp"
#include "collective/tcp/tcp_socket.hpp"
#include "io/wait_ready.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/socket.h>

namespace muster::collective {

Result<std::optional<HalfOpen::Greeting>> HalfOpen::next(TimePoint deadline) {
  while (true) {
    // Do this first: closing silent connections frees slots and descriptors for ranks.
    drop_silent();
    MUSTER_RETURN_IF_ERROR(accept_all());
    if (auto greeting = read_all()) {
      return greeting;
    }
    if (steady_now() >= deadline) {
      return std::nullopt;
    }
    wait(deadline);
  }
}

// If descriptors run out, silent connections are closed first, so that they cannot crowd out
// ranks.
Result<void> HalfOpen::accept_all() {
  no_descriptors_ = false;
  while (!is_full()) {
    UniqueFd fd(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    const int why = errno;
    if (fd) {
      prepare_connection(fd.get());
      waiting_.push_back({.fd = std::move(fd), .since = steady_now()});
    } else if (why == EAGAIN) {
      return {};
    } else if (why == EMFILE || why == ENFILE || why == ENOBUFS || why == ENOMEM) {
      if (waiting_.empty()) {
        return std::unexpected(system_failure("cannot accept a connection from another rank", why));
      }
      no_descriptors_ = true;
    } else if (why == EBADF || why == EINVAL || why == ENOTSOCK) {
      return std::unexpected(system_failure("cannot accept a connection from another rank", why));
    }
    // Other errors mean that the connection is already closed.
  }
  return {};
}

std::optional<HalfOpen::Greeting> HalfOpen::read_all() {
  // A hello may arrive in parts, and other clients may send nothing, so no read blocks.
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    const auto count =
        ::recv(it->fd.get(), it->bytes.data() + it->size, it->bytes.size() - it->size, 0);
    it->size += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
    it->is_closed = count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
    if (it->size == it->bytes.size()) {
      Greeting greeting{.fd = std::move(it->fd), .hello = {}};
      std::memcpy(&greeting.hello, it->bytes.data(), sizeof(greeting.hello));
      waiting_.erase(it);
      return greeting;
    }
  }
  std::erase_if(waiting_, [](const Waiting& one) { return one.is_closed; });
  return std::nullopt;
}

TimePoint HalfOpen::first_timeout() const {
  // The oldest connection is at the front, so it expires first.
  return waiting_.empty() ? TimePoint::max()
                          : waiting_.front().since + (is_full() ? kTimeoutWhenFull : kTimeout);
}

void HalfOpen::drop_silent() {
  // The timeout runs from the accept, not from the last byte, so that a client that sends slowly
  // cannot occupy a slot.
  while (!waiting_.empty() && steady_now() >= first_timeout()) {
    waiting_.pop_front();
  }
}

// Skip the listener if no more connections can be accepted, because it would always be ready.
void HalfOpen::wait(TimePoint deadline) const {
  std::vector<pollfd> watched;
  watched.reserve(waiting_.size() + 1);
  if (!is_full()) {
    watched.push_back({listener_, POLLIN, 0});
  }
  for (const Waiting& one : waiting_) {
    watched.push_back({one.fd.get(), POLLIN, 0});
  }
  static_cast<void>(
      ::poll(watched.data(), watched.size(), poll_timeout(std::min(deadline, first_timeout()))));
}

}  // namespace muster::collective
