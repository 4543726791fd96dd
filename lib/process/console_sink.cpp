// SPDX-License-Identifier: Apache-2.0
#include "process/console_sink.hpp"

#include <climits>

#include <algorithm>
#include <array>
#include <cerrno>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace muster {
namespace {

// A queue that once grew is given back when it is empty.
constexpr std::size_t kBufferKeptBytesMax = std::size_t{1024} * 1024;

bool would_block(int errno_value) {
  return errno_value == EAGAIN || errno_value == EINTR;
}

int as_milliseconds(Duration duration) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(duration).count();
  return static_cast<int>(std::clamp<long>(ms, 0, INT_MAX));
}

}  // namespace

ConsoleSink::ConsoleSink(int fd, Poller& poller, std::function<void()> on_room)
    : borrowed_(fd), poller_(poller), on_room_(std::move(on_room)) {
  open(fd);
}

ConsoleSink::~ConsoleSink() {
  poller_.forget(target());
}

void ConsoleSink::open(int fd) {
  struct stat facts {};

  if (::fstat(fd, &facts) != 0 || S_ISREG(facts.st_mode)) {
    return;  // a file has one position for all who write to it, and never blocks
  }
  terminal_ = ::isatty(fd) == 1;
  if (S_ISSOCK(facts.st_mode)) {
    way_ = Way::socket;
    return;
  }
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  own_ = UniqueFd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY | O_APPEND));
  // Another user's terminal (after su) or no /proc: what poll allows, in pieces that then fit.
  way_ = own_ ? Way::own_description : Way::small_pieces;
}

long ConsoleSink::write_some(const char* data, std::size_t size) const {
  switch (way_) {
    case Way::socket:
      return ::send(borrowed_, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    case Way::small_pieces: {
      pollfd room{.fd = borrowed_, .events = POLLOUT, .revents = 0};
      if (::poll(&room, 1, 0) == 0) {
        errno = EAGAIN;
        return -1;
      }
      return ::write(borrowed_, data, std::min<std::size_t>(size, PIPE_BUF));
    }
    case Way::plain:
    case Way::own_description:
      break;
  }
  return ::write(target(), data, size);
}

void ConsoleSink::flush() {
  while (!closed_ && written_ < pending_.size()) {
    const auto count = write_some(pending_.data() + written_, pending_.size() - written_);
    if (count > 0) {
      written_ += static_cast<std::size_t>(count);
      mid_line_ = pending_[written_ - 1] != '\n';
    } else if (would_block(errno)) {
      break;
    } else {
      closed_ = true;  // the reader left, the disk is full, the terminal hung up: files go on
    }
  }
  if (closed_ || written_ == pending_.size()) {
    clear();
    return;
  }
  if (written_ >= kQueueBytesLow) {
    pending_.erase(0, std::exchange(written_, 0));
  }
  if (!watched_) {
    watched_ = poller_.watch_room(target(), *this).has_value();
  }
}

void ConsoleSink::clear() {
  pending_.clear();
  written_ = 0;
  if (pending_.capacity() > kBufferKeptBytesMax) {
    pending_.shrink_to_fit();
  }
  if (watched_) {
    poller_.forget(target());
    watched_ = false;
  }
}

void ConsoleSink::drop() {
  clear();
  if (mid_line_) {
    pending_ = "\n";
  }
}

void ConsoleSink::on_ready() {
  const bool was_full = !has_room();
  flush();
  if (was_full && has_room()) {
    on_room_();
  }
}

bool ConsoleSink::wait_for_room(const ConsoleWait& wait, bool all) {
  while (all ? !empty() : !has_room()) {
    std::array<pollfd, 2> ready{{{.fd = target(), .events = POLLOUT, .revents = 0},
                                 {.fd = wait.interrupt_fd, .events = POLLIN, .revents = 0}}};
    const int count = ::poll(ready.data(), ready.size(), as_milliseconds(wait.patience));
    if (count <= 0 || (ready[0].revents == 0 && ready[1].revents != 0)) {
      return false;
    }
    flush();
  }
  return true;
}

bool same_place(int one, int other) {
  struct stat left {};

  struct stat right {};

  return ::fstat(one, &left) == 0 && ::fstat(other, &right) == 0 && left.st_dev == right.st_dev &&
         left.st_ino == right.st_ino && left.st_rdev == right.st_rdev;
}

}  // namespace muster
