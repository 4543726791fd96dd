// SPDX-License-Identifier: Apache-2.0
// The number of nodes, the backend and the job ID, by torchrun's rules. Rejects settings that would
// make a multi-node job wait forever or run as a single node.
#include "base/plural.hpp"
#include "base/text.hpp"
#include "config/options/rdzv_conf.hpp"
#include "config/options/values.hpp"
#include "config/resolve/resolution.hpp"

#include <fmt/core.h>

#include <map>
#include <string>
#include <vector>

namespace muster {
namespace {

// More than the number of nodes in any job. Even with the maximum number of workers per node, ranks
// fit into an int.
constexpr int kNodesMax = 100'000;

Result<void> resolve_nodes(const Resolution& r) {
  const auto parts = split(r.layers.text(OptionId::nnodes), ':');
  const auto min = parse_python_int(parts.front());
  const auto max = parse_python_int(parts.back());
  if (parts.size() > 2 || !min || !max) {
    return r.layers.refuse(OptionId::nnodes, "must be N or MIN:MAX");
  }
  if (*min < 1 || *max < *min) {
    return r.layers.refuse(OptionId::nnodes, "must satisfy 0 < MIN <= MAX");
  }
  if (*max > kNodesMax) {
    return r.layers.refuse(OptionId::nnodes, fmt::format("must be at most {}", kNodesMax));
  }
  r.config().nodes_min = static_cast<int>(*min);
  r.config().nodes_max = static_cast<int>(*max);
  return {};
}

// torchrun's default backend, static, would give every node --node-rank=0.
bool implies_c10d(const Resolution& r) {
  const bool is_numbered = r.layers.of(OptionId::node_rank).source < Source::platform;
  return many_nodes(r.config()) && !r.layers.is_given(OptionId::rdzv_backend) && !is_numbered &&
         r.layers.is_given(OptionId::rdzv_endpoint);
}

Result<void> resolve_backend(const Resolution& r) {
  if (r.config().standalone) {
    return {};
  }
  std::string backend = r.layers.text(OptionId::rdzv_backend);
  if (implies_c10d(r)) {
    backend = "c10d";
    r.set_origin(OptionId::rdzv_backend, "implied by --rdzv-endpoint without --node-rank");
  }
  r.config().rdzv_backend = backend;
  if (backend == "static" || backend == "c10d") {
    return {};
  }
  if (backend == "etcd" || backend == "etcd-v2") {
    return r.layers.refuse(OptionId::rdzv_backend,
                           "etcd is not supported; use --rdzv-backend=c10d, which needs no server");
  }
  return r.layers.refuse(OptionId::rdzv_backend, "must be static or c10d");
}

// UUID version 4 from 32 random hexadecimal digits.
std::string uuid4(std::string hex) {
  hex[12] = '4';
  hex[16] = "89ab"[static_cast<unsigned char>(hex[16]) % 4];
  return fmt::format("{}-{}-{}-{}-{}",
                     hex.substr(0, 8),
                     hex.substr(8, 4),
                     hex.substr(12, 4),
                     hex.substr(16, 4),
                     hex.substr(20));
}

void make_standalone(const Resolution& r, const std::string& why) {
  LaunchConfig& config = r.config();
  config.standalone = true;
  config.rdzv_backend = "c10d";
  config.rdzv_endpoints = {Endpoint{"localhost", 0}};
  config.rdzv_id = uuid4(r.machine.random_hex());
  for (const OptionId id :
       {OptionId::standalone, OptionId::rdzv_backend, OptionId::rdzv_endpoint, OptionId::rdzv_id}) {
    const Setting& setting = r.layers.of(id);
    const bool replaced = r.layers.is_given(id) && id != OptionId::standalone;
    if (id == OptionId::standalone && r.layers.is_on(id)) {
      continue;
    }
    r.set_origin(id, replaced ? fmt::format("{}, in place of {}", why, setting.text) : why);
  }
}

Result<void> resolve_standalone(const Resolution& r) {
  const bool many = many_nodes(r.config());
  if (r.layers.is_on(OptionId::standalone) && many) {
    return r.layers.refuse(OptionId::nnodes,
                           "--standalone starts a single-node job; use --rdzv-backend=c10d "
                           "--rdzv-endpoint=HOST[:PORT] instead");
  }
  if (r.layers.is_on(OptionId::standalone)) {
    make_standalone(r, "implied by --standalone");
  } else if (!many && r.layers.text(OptionId::rdzv_backend) == "static" &&
             !r.layers.is_given(OptionId::master_port) &&
             r.layers.text(OptionId::rdzv_endpoint).empty()) {
    make_standalone(r, "default for one node if no port is set");
  }
  return {};
}

void resolve_id(const Resolution& r) {
  LaunchConfig& config = r.config();
  if (config.standalone) {
    return;
  }
  config.rdzv_id = r.layers.text(OptionId::rdzv_id);
  if (config.rdzv_id.empty() && many_nodes(config)) {
    // An empty ID typically results from $RANDOM in a shell that does not support it. A different
    // random ID on each node would make the nodes reject each other.
    const auto& known = config.platform.run_id;
    config.rdzv_id = known ? known->value : option(OptionId::rdzv_id).default_value;
    r.warn(fmt::format("--rdzv-id is empty; using '{}' on all nodes", config.rdzv_id));
    r.set_origin(OptionId::rdzv_id,
                 known ? known->origin + ", since empty" : "default, since empty");
  } else if (config.rdzv_id.empty()) {
    config.rdzv_id = r.machine.random_hex();
    r.warn("--rdzv-id is empty; using a random one");
    r.set_origin(OptionId::rdzv_id, "random, since empty");
  }
}

// Prints one warning about keys for the other backend. torchrun keys without effect are harmless.
void warn_of_idle_keys(const Resolution& r, const std::map<std::string, std::string>& conf) {
  if (!many_nodes(r.config())) {
    return;
  }
  const bool is_static = r.config().rdzv_backend == "static";
  std::vector<std::string> idle;
  for (const RdzvKey& key : rdzv_keys()) {
    const bool is_other = is_static ? key.in_c10d && !key.in_static : key.in_static && !key.in_c10d;
    if (is_other && conf.contains(std::string(key.name))) {
      idle.emplace_back(key.name);
    }
  }
  if (!idle.empty()) {
    r.warn(fmt::format("--rdzv-conf: {} {} no effect with --rdzv-backend={}, which uses {}",
                       join(idle, ", "),
                       agreeing(idle.size(), "has", "have"),
                       r.config().rdzv_backend,
                       is_static ? "timeout" : "join_timeout"));
  }
}

Result<void> resolve_conf(const Resolution& r) {
  LaunchConfig& config = r.config();
  auto conf = parse_rdzv_conf(r.layers.text(OptionId::rdzv_conf));
  if (!conf) {
    return r.layers.refuse(OptionId::rdzv_conf, conf.error().message);
  }
  const auto rdzv = read_rendezvous_config(*conf, config.rdzv_backend);
  if (!rdzv) {
    return r.layers.refuse(OptionId::rdzv_conf, rdzv.error().message);
  }
  warn_of_idle_keys(r, *conf);
  for (std::string& warning : mistyped_keys(*conf)) {
    r.warn(std::move(warning));
  }
  config.rdzv_conf = std::move(*conf);
  config.rendezvous = *rdzv;
  // If the endpoint comes from the platform, the platform's first node hosts it, regardless of host
  // names.
  if (r.layers.of(OptionId::rdzv_endpoint).source == Source::platform &&
      !config.rendezvous.is_host) {
    config.rendezvous.is_host = is_host(config.platform);
  }
  return {};
}

void resolve_store_via(const Resolution& r) {
  const std::string& how = r.layers.text(OptionId::store_via);
  r.config().store_via = how == "proxy"  ? StoreVia::proxy
                         : how == "open" ? StoreVia::open
                                         : StoreVia::direct;
}

// A static job has exactly MAX nodes, each with a fixed rank.
Result<void> resolve_place(const Resolution& r) {
  LaunchConfig& config = r.config();
  const bool is_static = config.rdzv_backend == "static";
  if (is_static && config.nodes_min != config.nodes_max) {
    config.nodes_min = config.nodes_max;
    r.set_origin(OptionId::nnodes,
                 fmt::format("{}, raised to MAX because the backend is static",
                             r.layers.of(OptionId::nnodes).origin));
  }
  const auto rank = r.layers.integer(OptionId::node_rank);
  if (rank < 0 || rank >= config.nodes_max) {
    return r.layers.refuse(
        OptionId::node_rank,
        fmt::format("must be at least 0 and less than --nnodes, which is {}", config.nodes_max));
  }
  if (is_static || r.layers.is_given(OptionId::node_rank)) {
    config.node_rank = static_cast<int>(rank);
  }
  return {};
}

}  // namespace

Result<void> resolve_rendezvous(const Resolution& r) {
  for (const auto step : {resolve_nodes, resolve_standalone, resolve_backend}) {
    if (auto done = step(r); !done) {
      return done;
    }
  }
  resolve_id(r);
  resolve_store_via(r);
  for (const auto step : {resolve_conf,
                          resolve_place,
                          resolve_endpoints,
                          resolve_addresses,
                          resolve_rank_order,
                          resolve_token,
                          resolve_state_dir}) {
    if (auto done = step(r); !done) {
      return done;
    }
  }
  show_rendezvous(r);
  return {};
}

}  // namespace muster
