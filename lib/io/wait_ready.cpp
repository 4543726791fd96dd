// SPDX-License-Identifier: Apache-2.0
#include "io/wait_ready.hpp"

#include "base/clock.hpp"

#include <algorithm>
#include <cstdint>

#include <poll.h>

namespace muster {
namespace {

// Time limit for one poll call. The caller's loop continues if time remains.
constexpr std::int64_t kLongestPollMs = 3'600'000;

}  // namespace

int poll_timeout(TimePoint deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, kLongestPollMs));
}

bool wait_ready(int fd, short events, TimePoint deadline) {
  while (true) {
    pollfd watched{fd, events, 0};
    const int count = ::poll(&watched, 1, poll_timeout(deadline));
    if (count > 0) {
      return true;
    }
    if (count == 0 && steady_now() >= deadline) {
      return false;
    }
  }
}

}  // namespace muster
