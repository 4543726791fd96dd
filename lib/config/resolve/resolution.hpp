// SPDX-License-Identifier: Apache-2.0
// Resolution: what the steps of resolve() share, and the steps, one for each concern. Used inside
// this room only.
#pragma once

#include "base/environ.hpp"
#include "base/error.hpp"
#include "config/options/layers.hpp"
#include "config/resolve/resolve.hpp"

#include <map>
#include <string>
#include <vector>

namespace muster {

struct Resolution {
  const CommandLine& line;
  const Environ& environ;
  const Machine& machine;
  const Layers& layers;
  Resolved& out;

  [[nodiscard]] LaunchConfig& config() const { return out.config; }

  void warn(std::string text) const { out.warnings.push_back(std::move(text)); }

  // Overrides the origin that a setting would have by its layer.
  void set_origin(OptionId id, std::string origin) const {
    out.config.origins.insert_or_assign(std::string(option(id).name), std::move(origin));
  }
};

// Which GPUs the workers see, before anything counts them (resolve_devices.cpp).
[[nodiscard]] Result<void> resolve_devices(const Machine& machine,
                                           const Layers& layers,
                                           Resolved& out);
// What a platform says, as the layer above the defaults (resolve_platform.cpp).
[[nodiscard]] Result<void> resolve_platform(const CommandLine& line,
                                            const Environ& environ,
                                            const Machine& machine,
                                            Layers& layers,
                                            Resolved& out);
// The machines of --hosts or --hostfile, where one is given (resolve_hosts.cpp). `variables` are
// those that a config file adds.
[[nodiscard]] Result<void> resolve_hosts(const Resolution& resolution,
                                         const std::map<std::string, std::string>& variables);
// How the program is run, and whether it can be (resolve_program.cpp).
[[nodiscard]] Result<void> resolve_program(const Resolution& resolution);
// How many workers (resolve_workers.cpp).
[[nodiscard]] Result<void> resolve_workers(const Resolution& resolution);
// Their CPUs and memory (resolve_numa.cpp).
[[nodiscard]] Result<void> resolve_numa(const Resolution& resolution);
// Nodes, back end, and by the three steps behind it, addresses (resolve_rendezvous.cpp).
[[nodiscard]] Result<void> resolve_rendezvous(const Resolution& resolution);
// What they prove themselves with (resolve_token.cpp). The first only checks what was given.
[[nodiscard]] Result<void> check_token(const Resolution& resolution);
[[nodiscard]] Result<void> resolve_token(const Resolution& resolution);

// Where they record rounds (resolve_state_dir.cpp).
[[nodiscard]] Result<void> resolve_state_dir(const Resolution& resolution);
// Where nodes meet (resolve_endpoints.cpp).
[[nodiscard]] Result<void> resolve_endpoints(const Resolution& resolution);
// This node's address and ports, and the order of ranks (resolve_addresses.cpp).
[[nodiscard]] Result<void> resolve_addresses(const Resolution& resolution);
[[nodiscard]] Result<void> resolve_rank_order(const Resolution& resolution);
// Ports that are kept for the workers, after addresses (resolve_ports.cpp).
[[nodiscard]] Result<void> resolve_ports(const Resolution& resolution);
// Log files and the console (resolve_output.cpp).
[[nodiscard]] Result<void> resolve_output(const Resolution& resolution);
// Where the job is shown (resolve_http.cpp).
[[nodiscard]] Result<void> resolve_http(const Resolution& resolution);
// Restarts, signals, the grace period (resolve_stopping.cpp).
[[nodiscard]] Result<void> resolve_stopping(const Resolution& resolution);

}  // namespace muster
