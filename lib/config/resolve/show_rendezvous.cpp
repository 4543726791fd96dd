// SPDX-License-Identifier: Apache-2.0
// The rendezvous settings as --explain prints them. Each depends on several settings.
#include "base/text.hpp"
#include "config/options/rdzv_conf.hpp"
#include "config/resolve/resolution.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace muster {
namespace {

std::string describe_conf(const LaunchConfig& config) {
  std::vector<std::string> parts;
  parts.reserve(config.rdzv_conf.size());
  for (const auto& [key, value] : config.rdzv_conf) {
    parts.push_back(key + "=" + value);
  }
  parts = without_secrets(std::move(parts));
  const auto idle = keys_without_effect(config.rdzv_conf, config.rdzv_backend);
  return (parts.empty() ? "none" : join(parts, ",")) +
         (idle.empty() ? "" : fmt::format(" (no effect: {})", join(idle, ", ")));
}

std::string describe_endpoints(const std::vector<Endpoint>& endpoints) {
  std::vector<std::string> parts;
  std::ranges::transform(endpoints, std::back_inserter(parts), &Endpoint::describe);
  return join(parts, ",");
}

// The socket interface variables that the workers get.
std::string describe_ifname(const LaunchConfig& config) {
  if (!config.socket_ifname) {
    return "yes";
  }
  if (!many_nodes(config)) {
    return "no";
  }
  return config.iface.empty() ? "no: GLOO_SOCKET_IFNAME and TP_SOCKET_IFNAME are set"
                              : "no: GLOO_, TP_ and NCCL_SOCKET_IFNAME are " + config.iface;
}

std::string describe_place(const LaunchConfig& config) {
  if (config.node_rank) {
    return std::to_string(*config.node_rank);
  }
  return config.rank_order.empty() ? "by name" : "by --rank-order";
}

// With c10d and several nodes, the workers' store is on the node that gets rank 0.
std::string describe_master(const LaunchConfig& config) {
  return config.master_addr.empty() ? "the node with rank 0" : config.master_addr;
}

std::string describe_port(const LaunchConfig& config) {
  if (config.master_port != 0) {
    return std::to_string(config.master_port);
  }
  return config.port_range
             ? fmt::format(
                   "any free port in {}-{}", config.port_range->first, config.port_range->second)
             : "any free port";
}

std::string describe_store_via(const LaunchConfig& config) {
  if (!many_nodes(config)) {
    return "direct";  // the only possibility for a single node
  }
  switch (config.store_via) {
    case StoreVia::direct:
      return "direct, restricted to processes of the job";
    case StoreVia::proxy:
      return "proxy: MASTER_ADDR is 127.0.0.1";
    case StoreVia::open:
      break;
  }
  return "open, without access control";
}

std::string describe_token(const TokenSource& token) {
  if (token.munge == MungeUse::demanded) {
    return "munge";
  }
  return token.from == TokenFrom::nowhere ? "none" : "needed";
}

}  // namespace

void show_rendezvous(const Resolution& r) {
  using enum OptionId;
  const LaunchConfig& out = r.config();
  r.show(standalone, out.standalone);
  r.show(nnodes, fmt::format("{}:{}", out.nodes_min, out.nodes_max));
  r.show(node_rank, describe_place(out));
  r.show(master_addr, describe_master(out));
  r.show(master_port, describe_port(out));
  r.show(local_addr, out.local_addr);
  r.show(no_socket_ifname, describe_ifname(out));
  r.show(port_range, out.port_range ? r.layers.text(port_range) : "any");
  r.show(store_via, describe_store_via(out));
  r.show(rank_order, join(out.rank_order, ","));
  r.show(rdzv_backend, out.rdzv_backend);
  r.show(rdzv_endpoint, describe_endpoints(out.rdzv_endpoints));
  r.show(rdzv_id, out.rdzv_id);
  r.show(rdzv_conf, describe_conf(out));
  r.show(token_file, describe(out.token));
  r.show(token, describe_token(out.token));
  r.show(state_dir, out.state_dir);
  r.show(node_history, out.node_history);
  r.show(platform, out.platform.name);
}

}  // namespace muster
