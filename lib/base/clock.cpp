// SPDX-License-Identifier: Apache-2.0
#include "base/clock.hpp"

#include <array>
#include <ctime>

namespace muster {

TimePoint steady_now() {
  return std::chrono::steady_clock::now();
}

Duration thread_cpu_time() {
  timespec spent{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return std::chrono::seconds(spent.tv_sec) + std::chrono::nanoseconds(spent.tv_nsec);
}

double wall_now_seconds() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since_epoch).count();
}

std::string describe_wall_time(double unix_seconds) {
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  if (::localtime_r(&seconds, &parts) == nullptr) {
    return "unknown time";
  }
  std::array<char, 32> text{};
  const auto length = std::strftime(text.data(), text.size(), "%Y-%m-%d_%H:%M:%S", &parts);
  return {text.data(), length};
}

}  // namespace muster
