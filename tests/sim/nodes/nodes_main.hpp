// SPDX-License-Identifier: Apache-2.0
// The multi-node part of muster-sim: sim_main calls it for --nodes.
#pragma once

#include <cstdint>
#include <string>

namespace muster::sim {

struct NodesCommand {
  std::uint32_t nodes = 64;
  std::uint64_t first = 1;
  std::uint64_t count = 1000;
  bool bytes = false;     // level B
  bool hangs = false;     // some nodes see no progress, which starts inquiries
  bool waits = false;     // all nodes report how long their workers wait
  bool preempts = false;  // a scheduler announces that it will stop the job
  bool mends = false;     // failed ranks are replaced while the others run
  bool reboots = false;   // machines lose power and return with their records
  bool trace = false;
  bool scale = false;       // measures instead of checking
  std::string mutation;     // a rule to break (base/mutate.hpp); success means that it is caught
  bool keep_going = false;  // continues after failing seeds
};

// Returns the exit code.
[[nodiscard]] int play_nodes(const NodesCommand& command);

}  // namespace muster::sim
