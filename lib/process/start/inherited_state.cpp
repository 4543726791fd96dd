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

// A launcher of many workers holds a few descriptors for each; the usual soft limit of 1024 is
// meant for programs that use select(), which we do not. A worker may, so it gets the old one back.
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

// A descriptor that we open must never be taken for a standard stream.
void open_missing_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) {
      // The lowest free number is `fd`, as those below it are open.
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
    // A blocked signal would reach us through signalfd although it is ignored.
    if (sigismember(&g_inherited.ignored, signo) == 0) {
      sigaddset(&blocked, signo);
    }
  }
  ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  // An ignored SIGCHLD would take the exit codes of our children away from us.
  static_cast<void>(::signal(SIGCHLD, SIG_DFL));
  // A reader that left, and a file above the limit (ulimit -f), are errors of write() to us.
  static_cast<void>(::signal(SIGPIPE, SIG_IGN));
  static_cast<void>(::signal(SIGXFSZ, SIG_IGN));
  open_missing_standard_streams();
  raise_descriptor_limit();
}

}  // namespace muster
