// SPDX-License-Identifier: Apache-2.0
#include "process/start/inherited_state.hpp"

#include <array>

#include <fcntl.h>

namespace muster {
namespace {

InheritedState g_inherited;
bool g_known = false;

constexpr std::array kBlocked = {
    SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

void remember() {
  if (g_known) {
    return;
  }
  g_known = true;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &g_inherited.mask);
  sigemptyset(&g_inherited.ignored);
  for (int signo = 1; signo < SIGRTMIN; ++signo) {
    struct sigaction action {};

    if (::sigaction(signo, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) {
      sigaddset(&g_inherited.ignored, signo);
    }
  }
}

// A launcher needs several descriptors per worker. The usual soft limit of 1024 protects programs
// that use select(). muster does not use it, but a worker may, so workers get the original limit
// back.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) {
    return;
  }
  const rlimit raised{.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
  if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) {
    g_inherited.descriptors = limit;
  }
}

// Descriptors that we open must never become standard streams.
void open_missing_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) {
      // This opens descriptor `fd`, the lowest free number, because all lower descriptors are open.
      [[maybe_unused]] const int opened = ::open("/dev/null", O_RDWR);
    }
  }
}

}  // namespace

const InheritedState& inherited_state() {
  remember();
  return g_inherited;
}

void restore_inherited_state() {
  for (const int signo : {SIGPIPE, SIGXFSZ}) {
    if (sigismember(&g_inherited.ignored, signo) == 0) {
      static_cast<void>(::signal(signo, SIG_DFL));
    }
  }
  if (g_inherited.descriptors) {
    static_cast<void>(::setrlimit(RLIMIT_NOFILE, &*g_inherited.descriptors));
  }
  ::pthread_sigmask(SIG_SETMASK, &g_inherited.mask, nullptr);
}

void prepare_process() {
  remember();
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGCHLD);
  for (const int signo : kBlocked) {
    // If the signal were blocked, it would arrive through the signalfd although it is ignored.
    if (sigismember(&g_inherited.ignored, signo) == 0) {
      sigaddset(&blocked, signo);
    }
  }
  ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  // With SIGCHLD ignored, we would lose our children's exit codes.
  static_cast<void>(::signal(SIGCHLD, SIG_DFL));
  // For a closed pipe, or a file above the limit (ulimit -f), write() should return EPIPE or EFBIG
  // instead of raising a signal.
  static_cast<void>(::signal(SIGPIPE, SIG_IGN));
  static_cast<void>(::signal(SIGXFSZ, SIG_IGN));
  open_missing_standard_streams();
  raise_descriptor_limit();
}

}  // namespace muster
