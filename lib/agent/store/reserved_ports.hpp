// SPDX-License-Identifier: Apache-2.0
// ReservedPorts: the ports that the agent keeps for its workers. Those of --ports and, where this
// node has had rank 0, of --leader-ports stay the same for the life of the agent; one for a store
// that a worker serves is another one in each round. Used by the sources of rounds. Resource.
#pragma once

#include "base/error.hpp"
#include "config/launch_config.hpp"
#include "io/held_port.hpp"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace muster {

// Where all listeners of this node have their ports, if somebody has said so.
[[nodiscard]] PortRange port_range_of(const LaunchConfig& config);

class ReservedPorts {
 public:
  explicit ReservedPorts(const LaunchConfig& config) : config_(config) {}

  // Errors, of all: system; with the option that asked for the ports. What was held before stays.
  [[nodiscard]] Result<std::vector<std::uint16_t>> for_node();
  [[nodiscard]] Result<std::vector<std::uint16_t>> for_leader();
  [[nodiscard]] Result<std::uint16_t> for_store();

  // Rank 0 is on another node now: its worker serves the store.
  void drop_store() { store_.reset(); }

 private:
  using Held = std::vector<HeldPort>;

  [[nodiscard]] Result<std::vector<std::uint16_t>> fill(Held& held,
                                                        int count,
                                                        std::string_view option) const;
  const LaunchConfig& config_;
  Held node_;
  Held leader_;
  std::optional<HeldPort> store_;
};

}  // namespace muster
