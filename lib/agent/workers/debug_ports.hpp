// SPDX-License-Identifier: Apache-2.0
// DebugPorts: reserves the ports on which debugpy listens in workers that run under it (--debug).
// They stay the same in all rounds. Owned by the run folder. Resource.
#pragma once

#include "base/error.hpp"
#include "config/launch_config.hpp"
#include "io/held_port.hpp"
#include "plan/assignment.hpp"

#include <cstdint>
#include <map>

namespace muster {

class DebugPorts {
 public:
  explicit DebugPorts(const LaunchConfig& config) : config_(config) {}

  // The ports of the round's workers on this node, by local rank. Error: system.
  [[nodiscard]] Result<std::map<int, std::uint16_t>> for_round(const Assignment& assignment);

 private:
  const LaunchConfig& config_;
  std::map<int, HeldPort> held_;
};

}  // namespace muster
