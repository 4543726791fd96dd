// SPDX-License-Identifier: Apache-2.0
#include "base/life_page.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include <sys/stat.h>

namespace muster {

LifeAddress life_address(pid_t launcher) {
  // Pids of several containers may be equal where they share a network.
  struct stat pids {};

  const auto space = ::stat("/proc/self/ns/pid", &pids) == 0 ? pids.st_ino : 0;
  const std::string name = "muster-life-" + std::to_string(space) + "-" + std::to_string(launcher);
  LifeAddress out;
  out.storage.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof(out.storage.sun_path) - 1);
  std::memcpy(out.storage.sun_path + 1, name.data(), length);
  out.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return out;
}

}  // namespace muster
