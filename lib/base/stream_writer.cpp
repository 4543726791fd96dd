// SPDX-License-Identifier: Apache-2.0
#include "base/stream_writer.hpp"

#include "base/clock.hpp"

#include <climits>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr suseconds_t kInterruptMicroseconds = 10'000;

// During its lifetime, interrupts this thread's blocking system calls after 10 ms. The timer is
// periodic because its first signal may arrive just before the call.
class Interrupter {
 public:
  Interrupter() {
    struct sigaction action {};

    action.sa_handler = [](int) {};  // without SA_RESTART, the call returns
    ::sigaction(SIGALRM, &action, &action_before_);
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    ::pthread_sigmask(SIG_UNBLOCK, &alarm, &mask_before_);
    const timeval interval{.tv_sec = 0, .tv_usec = kInterruptMicroseconds};
    const itimerval timer{.it_interval = interval, .it_value = interval};
    ::setitimer(ITIMER_REAL, &timer, nullptr);
  }

  ~Interrupter() {
    // Stop the timer first, so that our handler still receives a pending signal.
    const itimerval never{};
    ::setitimer(ITIMER_REAL, &never, nullptr);
    ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
    ::sigaction(SIGALRM, &action_before_, nullptr);
  }

  Interrupter(const Interrupter&) = delete;
  Interrupter& operator=(const Interrupter&) = delete;

 private:
  struct sigaction action_before_ {};

  sigset_t mask_before_{};
};

// The write may block although poll() reported space: poll() does not report how much, and workers
// that share the stream may fill it between the two calls.
long write_interrupted(int fd, std::string_view bytes) {
  pollfd room{.fd = fd, .events = POLLOUT, .revents = 0};
  if (::poll(&room, 1, 0) == 0) {
    errno = EAGAIN;
    return -1;
  }
  const Interrupter interrupter;
  return ::write(fd, bytes.data(), std::min<std::size_t>(bytes.size(), PIPE_BUF));
}

}  // namespace

StreamWriter::StreamWriter(int fd) : borrowed_(fd) {
  struct stat facts {};

  if (::fstat(fd, &facts) != 0 || S_ISREG(facts.st_mode)) {
    return;  // a new description would have its own offset and overwrite other output
  }
  terminal_ = ::isatty(fd) == 1;
  if (S_ISSOCK(facts.st_mode)) {
    method_ = Method::socket;
    return;
  }
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  own_ = UniqueFd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY | O_APPEND));
  // Opening fails for another user's terminal (after su), without /proc, and if descriptors are
  // exhausted.
  method_ = own_ ? Method::own_description : Method::interrupted;
}

long StreamWriter::write_some(std::string_view bytes) const {
  long count = -1;
  switch (method_) {
    case Method::socket:
      count = ::send(borrowed_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      break;
    case Method::interrupted:
      count = write_interrupted(borrowed_, bytes);
      break;
    case Method::plain:
    case Method::own_description:
      count = ::write(fd(), bytes.data(), bytes.size());
      break;
  }
  if (count < 0 && errno == EINTR) {
    errno = EAGAIN;
  }
  return count;
}

bool write_within(int fd, std::string_view text, Duration timeout) {
  const TimePoint until = steady_now() + timeout;
  const StreamWriter writer(fd);
  while (!text.empty()) {
    const auto count = writer.write_some(text);
    if (count >= 0) {
      text.remove_prefix(static_cast<std::size_t>(count));
      continue;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - steady_now());
    if (errno != EAGAIN) {
      return false;
    }
    if (left.count() <= 0) {
      errno = ETIMEDOUT;
      return false;
    }
    pollfd room{.fd = writer.fd(), .events = POLLOUT, .revents = 0};
    ::poll(&room, 1, static_cast<int>(std::min<long>(left.count(), INT_MAX)));
  }
  return true;
}

}  // namespace muster
