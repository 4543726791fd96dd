// SPDX-License-Identifier: Apache-2.0
#include "agent/rendezvous_settings.hpp"

#include "agent/reserved_ports.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace muster {
namespace {

// 16 random hexadecimal digits; 0 names nobody.
std::uint64_t number_from(std::string_view hex) {
  std::uint64_t number = 0;
  std::from_chars(hex.data(), hex.data() + hex.size(), number, 16);
  return std::max<std::uint64_t>(number, 1);
}

JobTerms terms_of(const LaunchConfig& config, const std::string& version) {
  JobTerms terms;
  terms.job_id = config.rdzv_id;
  terms.backend = config.rdzv_backend;
  terms.nodes_max = config.nodes_max;
  // The world of a static job is fixed.
  terms.nodes_min = config.rdzv_backend == "static" ? config.nodes_max : config.nodes_min;
  terms.max_restarts = config.max_restarts;
  terms.version = version;
  terms.leader_ports = config.leader_ports;
  return terms;
}

}  // namespace

RendezvousSettings rendezvous_settings(const AgentSetup& setup) {
  const LaunchConfig& config = setup.config;
  const bool is_static = config.rdzv_backend == "static";
  RendezvousSettings out;
  out.core.terms = terms_of(config, setup.version);
  out.core.endpoints = config.rdzv_endpoints;
  out.core.quick_failures = config.quick_failures;
  out.core.join_timeout = config.rendezvous.join_timeout;
  out.core.last_call = config.rendezvous.last_call_timeout;
  out.core.lease = config.rendezvous.lease;
  out.core.join_delay = config.rendezvous.join_delay;
  out.core.allow_split_brain = config.rendezvous.allow_split_brain;
  out.core.nodes_are_numbered = config.nodes_are_numbered;
  out.core.rank_order = config.rank_order;
  out.core.local_addr = config.local_addr;
  out.is_host = config.rendezvous.is_host;
  if (is_static) {
    // The workers of rank 0 have their store at the endpoint.
    out.core.fixed_store = Endpoint{config.master_addr, config.master_port};
    out.is_host = config.rendezvous.is_host.value_or(config.node_rank == 0);
  }
  out.self.id = number_from(std::string_view(setup.random).substr(0, 16));
  out.self.name = setup.hostname;
  out.self.nproc = config.nproc;
  out.self.role = config.role;
  out.self.node_rank = config.node_rank.value_or(-1);
  out.seed = number_from(std::string_view(setup.random).substr(16, 16));
  out.ports = port_range_of(config);
  return out;
}

}  // namespace muster
