// SPDX-License-Identifier: Apache-2.0
#include "process/loop/child_signals.hpp"

#include <cerrno>
#include <csignal>

#include <sys/signalfd.h>

namespace muster {

Result<UniqueFd> open_child_signals() {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  ::pthread_sigmask(SIG_BLOCK, &child, nullptr);  // tests may not have called prepare_process
  UniqueFd fd(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) {
    return std::unexpected(system_error("cannot create the signalfd for SIGCHLD", errno));
  }
  return fd;
}

}  // namespace muster
