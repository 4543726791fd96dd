// SPDX-License-Identifier: Apache-2.0
// Resolution: the state that the steps of resolve() share, and the declarations of these steps, one
// per topic. Internal to this module.
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

  // Overrides the origin that the setting got from its layer.
  void set_origin(OptionId id, std::string origin) const {
    out.config.origins.insert_or_assign(std::string(option(id).name), std::move(origin));
  }

  // Sets the value that --explain prints. An empty text is printed as "none".
  void show(OptionId id, std::string text) const {
    out.config.shown.insert_or_assign(std::string(option(id).name),
                                      text.empty() ? "none" : std::move(text));
  }

  void show(OptionId id, bool value) const { show(id, value ? "yes" : "no"); }

  void show(OptionId id, const char* text) const { show(id, std::string(text)); }
};

// The GPUs visible to the workers. Must run before GPUs are counted (resolve_devices.cpp).
[[nodiscard]] Result<void> resolve_devices(const Machine& machine,
                                           const Layers& layers,
                                           Resolved& out);
// Values from the platform. They form the layer directly above the defaults (resolve_platform.cpp).
[[nodiscard]] Result<void> resolve_platform(const CommandLine& line,
                                            const Environ& environ,
                                            const Machine& machine,
                                            Layers& layers,
                                            Resolved& out);
// The hosts from --hosts or --hostfile, if set (resolve_hosts.cpp). `variables` are environment
// variables that a config file adds.
[[nodiscard]] Result<void> resolve_hosts(const Resolution& resolution,
                                         const std::map<std::string, std::string>& variables);
// How to run the program, and whether it can be run (resolve_program.cpp).
[[nodiscard]] Result<void> resolve_program(const Resolution& resolution);
// The number of workers (resolve_workers.cpp).
[[nodiscard]] Result<void> resolve_workers(const Resolution& resolution);
// The workers' CPUs and memory (resolve_numa.cpp).
[[nodiscard]] Result<void> resolve_numa(const Resolution& resolution);
// The nodes and the backend; calls the steps declared below for the addresses
// (resolve_rendezvous.cpp).
[[nodiscard]] Result<void> resolve_rendezvous(const Resolution& resolution);
// The secret that nodes use to authenticate (resolve_token.cpp). check_token only validates
// options.
[[nodiscard]] Result<void> check_token(const Resolution& resolution);
[[nodiscard]] Result<void> resolve_token(const Resolution& resolution);

// The directory of the round records (resolve_state_dir.cpp).
[[nodiscard]] Result<void> resolve_state_dir(const Resolution& resolution);
// The rendezvous endpoints (resolve_endpoints.cpp).
[[nodiscard]] Result<void> resolve_endpoints(const Resolution& resolution);
// The rendezvous settings for --explain (show_rendezvous.cpp).
void show_rendezvous(const Resolution& resolution);
// This node's address and ports, and the order of ranks (resolve_addresses.cpp).
[[nodiscard]] Result<void> resolve_addresses(const Resolution& resolution);
[[nodiscard]] Result<void> resolve_rank_order(const Resolution& resolution);
// The variables of frameworks other than PyTorch. Must run after the program
// (resolve_frameworks.cpp).
[[nodiscard]] Result<void> resolve_frameworks(const Resolution& resolution);
// Ports reserved for the workers. Must run after addresses and frameworks (resolve_ports.cpp).
[[nodiscard]] Result<void> resolve_ports(const Resolution& resolution);
// Log files and the console (resolve_output.cpp).
[[nodiscard]] Result<void> resolve_output(const Resolution& resolution);
// The HTTP server (resolve_http.cpp).
[[nodiscard]] Result<void> resolve_http(const Resolution& resolution);
// Ranks that start under a debugger. Must run after the program and the workers
// (resolve_debug.cpp).
[[nodiscard]] Result<void> resolve_debug(const Resolution& resolution);
// Restarts, signals, the grace period (resolve_stopping.cpp).
[[nodiscard]] Result<void> resolve_stopping(const Resolution& resolution);

}  // namespace muster
