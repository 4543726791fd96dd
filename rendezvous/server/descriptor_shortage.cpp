// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/descriptor_shortage.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <poll.h>
#include <sys/resource.h>

namespace muster {
namespace {

// The retry interval while new connections wait in the backlog for a free descriptor.
constexpr Duration kAcceptRetry = std::chrono::milliseconds(100);

}  // namespace

std::size_t quarter_of_descriptors() {
  rlimit limit{};
  const bool known = ::getrlimit(RLIMIT_NOFILE, &limit) == 0;
  return known ? std::max<std::size_t>(limit.rlim_cur / 4, 1) : 1;
}

bool is_shortage(int errno_value) {
  return errno_value == EMFILE || errno_value == ENFILE || errno_value == ENOBUFS ||
         errno_value == ENOMEM;
}

bool has_backlog(int listener) {
  pollfd watched{listener, POLLIN, 0};
  return ::poll(&watched, 1, 0) > 0;
}

std::optional<std::string> AcceptPause::begin(TimePoint now, int why) {
  until_ = now + kAcceptRetry;
  if (std::exchange(told_, true)) {
    return std::nullopt;
  }
  return "cannot accept another " + std::string(whom_) + ": " + errno_text(why) +
         "; new connections wait until another one closes; raise the limit on open files (ulimit "
         "-n)";
}

bool AcceptPause::end() {
  return std::exchange(until_, std::nullopt).has_value();
}

}  // namespace muster
