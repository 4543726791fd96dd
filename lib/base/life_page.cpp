// SPDX-License-Identifier: Apache-2.0
#include "base/life_page.hpp"

#include <string>

#include <sys/stat.h>

namespace muster {

UnixAddress life_address(pid_t launcher) {
  // Pids of several containers may be equal where they share a network.
  struct stat pids {};

  const auto space = ::stat("/proc/self/ns/pid", &pids) == 0 ? pids.st_ino : 0;
  const std::string name = "muster-life-" + std::to_string(space) + "-" + std::to_string(launcher);
  return abstract_address(name);
}

}  // namespace muster
