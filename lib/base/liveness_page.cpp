// SPDX-License-Identifier: Apache-2.0
#include "base/liveness_page.hpp"

#include <string>

#include <sys/stat.h>

namespace muster {

namespace {

UnixAddress address_of(const std::string& what, pid_t launcher) {
  // Containers that share a network namespace may use the same pids, so the name includes the PID
  // namespace.
  struct stat pids {};

  const auto space = ::stat("/proc/self/ns/pid", &pids) == 0 ? pids.st_ino : 0;
  return abstract_address("muster-" + what + "-" + std::to_string(space) + "-" +
                          std::to_string(launcher));
}

}  // namespace

UnixAddress liveness_address(pid_t launcher) {
  return address_of("life", launcher);
}

UnixAddress flight_recorder_address(pid_t launcher) {
  return address_of("flights", launcher);
}

}  // namespace muster
