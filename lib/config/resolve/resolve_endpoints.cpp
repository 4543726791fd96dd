// SPDX-License-Identifier: Apache-2.0
// The rendezvous endpoints and, if known in advance, the address that workers connect to.
// Multi-node jobs need an explicit endpoint. torchrun's default of localhost works only if all
// agents run on one machine. On several machines, the agents would time out after ten minutes.
#include "base/text.hpp"
#include "config/resolve/resolution.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

namespace muster {
namespace {

constexpr std::uint16_t kC10dPortDefault = 29400;
constexpr std::uint16_t kStaticPortDefault = 29500;

Result<std::vector<Endpoint>> typed_endpoints(const Resolution& r) {
  std::vector<Endpoint> out;
  for (const std::string& part : split(r.layers.text(OptionId::rdzv_endpoint), ',')) {
    auto endpoint = parse_endpoint(part);
    if (!endpoint) {
      return r.layers.refuse(OptionId::rdzv_endpoint, endpoint.error().message);
    }
    out.push_back(std::move(*endpoint));
  }
  return out;
}

Result<void> check_can_be_found(const Resolution& r, OptionId id) {
  const bool any = std::ranges::any_of(r.config().rdzv_endpoints,
                                       [](const Endpoint& one) { return one.port == 0; });
  return any && many_nodes(r.config())
             ? r.layers.refuse(id, "port 0 selects any free port, which other nodes could not find")
             : Result<void>{};
}

Result<Endpoint> static_endpoint(const Resolution& r) {
  auto typed = typed_endpoints(r);
  MUSTER_RETURN_IF_ERROR(typed);
  if (typed->size() > 1) {
    return r.layers.refuse(OptionId::rdzv_endpoint,
                           "must be a single address with --rdzv-backend=static");
  }
  if (!typed->front().port) {
    return r.layers.refuse(OptionId::rdzv_endpoint, "needs a port with --rdzv-backend=static");
  }
  return std::move(typed->front());
}

Result<Endpoint> master_endpoint(const Resolution& r) {
  auto out = parse_endpoint(r.layers.text(OptionId::master_addr));
  if (!out || out->port) {
    return r.layers.refuse(OptionId::master_addr, "must be a name or an address without a port");
  }
  out->port = kStaticPortDefault;
  if (r.layers.is_given(OptionId::master_port)) {
    const auto port = r.layers.integer(OptionId::master_port);
    if (port < 0 || port > std::numeric_limits<std::uint16_t>::max()) {
      return r.layers.refuse(OptionId::master_port, "must be from 0 to 65535");
    }
    out->port = static_cast<std::uint16_t>(port);
  }
  return out;
}

// torchrun's default --node-rank=0 would give every node rank 0, and other nodes cannot reach its
// default address 127.0.0.1.
Result<void> check_static_place(const Resolution& r) {
  // A launch with a platform problem has already been rejected; --explain shows the problem.
  if (!many_nodes(r.config()) || !r.config().platform.problem.empty()) {
    return {};
  }
  const bool is_numbered = r.layers.is_given(OptionId::node_rank);
  const bool says_where =
      r.layers.is_given(OptionId::rdzv_endpoint) || r.layers.is_given(OptionId::master_addr);
  if (!says_where && is_numbered) {
    return r.layers.refuse(
        OptionId::nnodes,
        fmt::format("needs --master-addr=HOST, an address of the node with --node-rank=0 that all "
                    "nodes can reach{}; if all run on this host, --master-addr=127.0.0.1",
                    r.layers.is_given(OptionId::master_port) ? "" : ", and --master-port=PORT"));
  }
  if (!says_where) {
    return r.layers.refuse(OptionId::nnodes,
                           "needs a rendezvous: --rdzv-backend=c10d with "
                           "--rdzv-endpoint=HOST[:PORT], or --master-addr, --master-port and "
                           "--node-rank");
  }
  if (!is_numbered) {
    return r.layers.refuse(
        OptionId::nnodes,
        fmt::format("--rdzv-backend=static needs --node-rank on every node, 0 to {}; or use "
                    "--rdzv-backend=c10d --rdzv-endpoint=HOST[:PORT], which assigns the ranks",
                    r.config().nodes_max - 1));
  }
  return {};
}

// In a static job the workers connect to the rendezvous endpoint.
Result<void> resolve_static(const Resolution& r) {
  LaunchConfig& config = r.config();
  if (auto checked = check_static_place(r); !checked) {
    return checked;
  }
  const bool typed = !r.layers.text(OptionId::rdzv_endpoint).empty();
  auto endpoint = typed ? static_endpoint(r) : master_endpoint(r);
  MUSTER_RETURN_IF_ERROR(endpoint);
  config.master_addr = endpoint->host;
  config.master_port = *endpoint->port;
  config.rdzv_endpoints = {std::move(*endpoint)};
  return check_can_be_found(r, typed ? OptionId::rdzv_endpoint : OptionId::master_port);
}

Result<void> resolve_default_c10d(const Resolution& r) {
  if (many_nodes(r.config())) {
    return r.layers.refuse(OptionId::nnodes,
                           "needs --rdzv-endpoint=HOST[:PORT], an address of one node that all "
                           "nodes can reach; if all run on this host, "
                           "--rdzv-endpoint=localhost:29400");
  }
  r.config().rdzv_endpoints = {Endpoint{"localhost", kC10dPortDefault}};
  if (r.layers.is_given(OptionId::master_addr)) {
    r.warn("ignoring --master-addr: it needs --rdzv-backend=static and no --rdzv-endpoint");
  }
  return {};
}

bool wants_file_store(const LaunchConfig& config) {
  const auto type = config.rdzv_conf.find("store_type");
  return type != config.rdzv_conf.end() && to_lower(trim(type->second)) == "file";
}

// A single node needs no rendezvous. Its endpoint is only validated, and kept for --explain.
Result<void> resolve_c10d(const Resolution& r) {
  LaunchConfig& config = r.config();
  if (wants_file_store(config) && many_nodes(config)) {
    return r.layers.refuse(OptionId::rdzv_conf,
                           "store_type=file is not supported; omit it and set "
                           "--rdzv-endpoint=HOST[:PORT]");
  }
  if (config.standalone || wants_file_store(config)) {
    return {};
  }
  if (r.layers.text(OptionId::rdzv_endpoint).empty()) {
    return resolve_default_c10d(r);
  }
  auto typed = typed_endpoints(r);
  MUSTER_RETURN_IF_ERROR(typed);
  config.rdzv_endpoints = std::move(*typed);
  for (Endpoint& endpoint : config.rdzv_endpoints) {
    endpoint.port = endpoint.port.value_or(kC10dPortDefault);
  }
  for (const OptionId id : {OptionId::master_addr, OptionId::master_port}) {
    if (r.layers.is_typed(id)) {
      r.warn(fmt::format("{} has no effect with --rdzv-backend=c10d, which uses --rdzv-endpoint",
                         long_flag(option(id))));
    }
  }
  return check_can_be_found(r, OptionId::rdzv_endpoint);
}

}  // namespace

Result<void> resolve_endpoints(const Resolution& r) {
  return r.config().rdzv_backend == "static" ? resolve_static(r) : resolve_c10d(r);
}

}  // namespace muster
