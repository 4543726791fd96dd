// SPDX-License-Identifier: Apache-2.0
// The part of muster-sim that plays many nodes: called by sim_main for --nodes.
#pragma once

#include <cstdint>
#include <string>

namespace muster::sim {

struct NodesCommand {
  std::uint32_t nodes = 64;
  std::uint64_t first = 1;
  std::uint64_t count = 1000;
  bool bytes = false;    // level B
  bool hangs = false;    // some nodes see no progress, and all are asked
  bool waits = false;    // all nodes tell how long their workers wait
  bool reboots = false;  // machines lose their power and return with their records
  bool trace = false;
  bool scale = false;       // measures instead of checking
  std::string mutation;     // a rule to break (base/mutate.hpp); success is then to be caught
  bool keep_going = false;  // past seeds that fail
};

// Exit code.
[[nodiscard]] int play_nodes(const NodesCommand& command);

}  // namespace muster::sim
