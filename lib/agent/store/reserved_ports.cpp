// SPDX-License-Identifier: Apache-2.0
#include "agent/store/reserved_ports.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

namespace muster {

PortRange port_range_of(const LaunchConfig& config) {
  const auto& range = config.port_range;
  return range ? PortRange{range->first, range->second} : PortRange{};
}

Result<std::vector<std::uint16_t>> ReservedPorts::fill(Held& held,
                                                       int count,
                                                       std::string_view what) const {
  while (held.size() < static_cast<std::size_t>(count)) {
    auto port = HeldPort::take_with_udp(port_range_of(config_));
    if (!port) {
      return std::unexpected(port.error().during(what));
    }
    held.push_back(std::move(*port));
  }
  std::vector<std::uint16_t> out;
  std::ranges::transform(held, std::back_inserter(out), &HeldPort::number);
  return out;
}

Result<std::vector<std::uint16_t>> ReservedPorts::for_node() {
  return fill(node_, config_.ports, fmt::format("--ports={}", config_.ports));
}

Result<std::vector<std::uint16_t>> ReservedPorts::for_leader() {
  const std::string jax = config_.jax ? " and the port of JAX's coordinator" : "";
  return fill(leader_,
              reserved_leader_ports(config_),
              fmt::format("--leader-ports={}{}", config_.leader_ports, jax));
}

// Takes a new port before releasing the old one, so that the two differ and a process that missed
// the end of a round cannot reach the next round's store. A small range may have no other free
// port.
Result<std::uint16_t> ReservedPorts::for_store() {
  auto port = HeldPort::take(port_range_of(config_));
  if (!port && store_) {
    return store_->number();
  }
  if (!port) {
    return std::unexpected(port.error().during("the port of the workers' store"));
  }
  store_ = std::move(*port);
  return store_->number();
}

}  // namespace muster
