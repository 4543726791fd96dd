// SPDX-License-Identifier: Apache-2.0
#include "collective/recorder/hand_over.hpp"

#include "base/fd.hpp"
#include "base/liveness_page.hpp"

#include <sys/time.h>
#include <unistd.h>

namespace muster::collective {
namespace {

// If the launcher is stopped (SIGSTOP), do not block for longer than this.
constexpr timeval kHandOverTimeout{.tv_sec = 1, .tv_usec = 0};

}  // namespace

// Checks the peer's pid, because another process could bind the name, and a process that holds the
// memory can erase it.
void hand_over_flight_recorder(int recorders) {
  const pid_t parent = ::getppid();
  const UnixAddress address = flight_recorder_address(parent);
  const UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd ||
      ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kHandOverTimeout, sizeof(timeval)) != 0 ||
      ::connect(fd.get(), address.raw(), address.size) != 0) {
    return;
  }
  const auto who = peer_of(fd.get());
  if (who && who->pid == parent) {
    static_cast<void>(send_with_fds(fd.get(), kFlightRecorderMessage, {&recorders, 1}));
  }
}

}  // namespace muster::collective
