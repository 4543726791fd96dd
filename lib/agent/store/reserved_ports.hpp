// SPDX-License-Identifier: Apache-2.0
// ReservedPorts: the ports that the agent reserves for its workers. The ports of --ports never
// change while the agent runs, nor do those of --leader-ports once this node has had rank 0. The
// port of a store that a worker serves changes in each round. Used by the round sources. Resource.
#pragma once

#include "base/error.hpp"
#include "config/launch_config.hpp"
#include "io/held_port.hpp"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace muster {

// The range for all listening sockets on this node, if one was configured.
[[nodiscard]] PortRange port_range_of(const LaunchConfig& config);

class ReservedPorts {
 public:
  explicit ReservedPorts(const LaunchConfig& config) : config_(config) {}

  // Error: system, with the option that requested the ports. Ports that are already reserved stay
  // reserved.
  [[nodiscard]] Result<std::vector<std::uint16_t>> for_node();
  // The last one is for JAX's coordinator if the job uses JAX.
  [[nodiscard]] Result<std::vector<std::uint16_t>> for_leader();
  [[nodiscard]] Result<std::uint16_t> for_store();

  // Call when rank 0 is on another node, whose worker serves the store.
  void drop_store() { store_.reset(); }

 private:
  using Held = std::vector<HeldPort>;

  [[nodiscard]] Result<std::vector<std::uint16_t>> fill(Held& held,
                                                        int count,
                                                        std::string_view what) const;
  const LaunchConfig& config_;
  Held node_;
  Held leader_;
  std::optional<HeldPort> store_;
};

}  // namespace muster
