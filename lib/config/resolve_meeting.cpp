// SPDX-License-Identifier: Apache-2.0
// Nodes, back end and addresses, by torchrun's rules for one node. Jobs of more nodes are refused
// here, in one place, until they are built.
#include "base/text.hpp"
#include "config/rdzv_conf.hpp"
#include "config/resolution.hpp"
#include "config/values.hpp"

#include <fmt/core.h>

#include <limits>

namespace muster {
namespace {

constexpr std::uint16_t kC10dPortDefault = 29400;
constexpr std::uint16_t kStaticPortDefault = 29500;

Result<void> resolve_nodes(const Resolution& r) {
  const auto parts = split(r.layers.text(OptionId::nnodes), ':');
  const auto min = parse_python_int(parts.front());
  const auto max = parse_python_int(parts.back());
  if (parts.size() > 2 || !min || !max) {
    return r.layers.refuse(OptionId::nnodes, "must be N or MIN:MAX");
  }
  if (*min < 1 || *max < *min || *max > std::numeric_limits<int>::max()) {
    return r.layers.refuse(OptionId::nnodes, "must be 0 < MIN <= MAX");
  }
  if (*max > 1) {
    return r.layers.refuse(OptionId::nnodes,
                           "this version runs jobs on one machine only; use --nnodes=1, or "
                           "torchrun for more machines");
  }
  return {};
}

Result<void> resolve_conf(const Resolution& r) {
  auto conf = parse_rdzv_conf(r.layers.text(OptionId::rdzv_conf));
  if (!conf) {
    return r.layers.refuse(OptionId::rdzv_conf, conf.error().message);
  }
  r.config().rdzv_conf = std::move(*conf);
  return {};
}

Result<void> check_backend(const Resolution& r, const std::string& backend) {
  if (backend == "static" || backend == "c10d") {
    return {};
  }
  if (backend == "etcd" || backend == "etcd-v2") {
    return r.layers.refuse(OptionId::rdzv_backend,
                           "etcd is not supported; use --rdzv-backend=c10d, which needs no server");
  }
  return r.layers.refuse(OptionId::rdzv_backend, "must be static or c10d");
}

// Uuid version 4 from 32 random hexadecimal digits.
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

Result<Endpoint> typed_endpoint(const Resolution& r) {
  auto endpoint = parse_endpoint(r.layers.text(OptionId::rdzv_endpoint));
  if (!endpoint) {
    return r.layers.refuse(OptionId::rdzv_endpoint, endpoint.error().message);
  }
  return endpoint;
}

Result<std::uint16_t> static_port(const Resolution& r) {
  if (!r.layers.is_given(OptionId::master_port)) {
    return kStaticPortDefault;
  }
  const auto port = r.layers.integer(OptionId::master_port);
  if (port < 0 || port > std::numeric_limits<std::uint16_t>::max()) {
    return r.layers.refuse(OptionId::master_port, "must be from 0 to 65535");
  }
  return static_cast<std::uint16_t>(port);
}

// The endpoint of a static job is what the workers dial.
Result<void> resolve_static(const Resolution& r) {
  LaunchConfig& config = r.config();
  Endpoint endpoint{r.layers.text(OptionId::master_addr), std::nullopt};
  if (!r.layers.text(OptionId::rdzv_endpoint).empty()) {
    auto typed = typed_endpoint(r);
    if (!typed) {
      return std::unexpected(typed.error());
    }
    if (!typed->port) {
      return r.layers.refuse(OptionId::rdzv_endpoint, "needs a port with --rdzv-backend=static");
    }
    endpoint = std::move(*typed);
  } else {
    const auto host = parse_endpoint(endpoint.host);
    if (!host || host->port) {
      return r.layers.refuse(OptionId::master_addr, "must be a name or an address without a port");
    }
    const auto port = static_port(r);
    if (!port) {
      return std::unexpected(port.error());
    }
    endpoint.host = host->host;
    endpoint.port = *port;
  }
  config.master_addr = endpoint.host;
  config.master_port = *endpoint.port;
  config.rdzv_endpoints = {std::move(endpoint)};
  config.node_rank = 0;
  const auto rank = r.layers.integer(OptionId::node_rank);
  if (rank != 0) {
    return r.layers.refuse(OptionId::node_rank, "must be less than --nnodes, which is 1");
  }
  return {};
}

// One node meets nobody: the endpoint is only checked and kept for --explain.
Result<void> resolve_c10d(const Resolution& r) {
  LaunchConfig& config = r.config();
  const bool file_store = config.rdzv_conf.contains("store_type") &&
                          to_lower(config.rdzv_conf.at("store_type")) == "file";
  if (config.standalone || file_store) {
    return {};
  }
  if (r.layers.text(OptionId::rdzv_endpoint).empty()) {
    config.rdzv_endpoints = {Endpoint{"localhost", kC10dPortDefault}};
    if (r.layers.is_given(OptionId::master_addr)) {
      r.warn("ignoring --master-addr: it is for --rdzv-backend=static without --rdzv-endpoint");
    }
    return {};
  }
  auto typed = typed_endpoint(r);
  if (!typed) {
    return std::unexpected(typed.error());
  }
  typed->port = typed->port.value_or(kC10dPortDefault);
  config.rdzv_endpoints = {std::move(*typed)};
  return {};
}

Result<void> resolve_local_addr(const Resolution& r) {
  LaunchConfig& config = r.config();
  config.local_addr = r.layers.text(OptionId::local_addr);
  if (config.local_addr.empty()) {
    return {};
  }
  const auto host = parse_endpoint(config.local_addr);
  if (!host || host->port) {
    return r.layers.refuse(OptionId::local_addr, "must be a name or an address without a port");
  }
  config.local_addr = host->host;
  if (config.rdzv_backend == "c10d") {
    config.master_addr = host->host;
  }
  return {};
}

void resolve_id(const Resolution& r) {
  LaunchConfig& config = r.config();
  if (config.standalone) {
    return;
  }
  config.rdzv_id = r.layers.text(OptionId::rdzv_id);
  if (config.rdzv_id.empty()) {
    config.rdzv_id = r.machine.random_hex();
    r.warn("--rdzv-id is empty: taking a random one");
    r.set_origin(OptionId::rdzv_id, "random, since empty");
  }
}

}  // namespace

Result<void> resolve_meeting(const Resolution& r) {
  LaunchConfig& config = r.config();
  if (auto done = resolve_nodes(r); !done) {
    return done;
  }
  if (auto done = resolve_conf(r); !done) {
    return done;
  }
  config.rdzv_backend = r.layers.text(OptionId::rdzv_backend);
  if (r.layers.is_on(OptionId::standalone)) {
    make_standalone(r, "implied by --standalone");
  } else if (config.rdzv_backend == "static" && !r.layers.is_given(OptionId::master_port) &&
             r.layers.text(OptionId::rdzv_endpoint).empty()) {
    make_standalone(r, "implied by one machine without a port");
  }
  resolve_id(r);
  if (auto done = check_backend(r, config.rdzv_backend); !done) {
    return done;
  }
  if (auto checked = check_rdzv_conf(config.rdzv_conf, config.rdzv_backend); !checked) {
    return r.layers.refuse(OptionId::rdzv_conf, checked.error().message);
  }
  const bool is_static = config.rdzv_backend == "static";
  if (!is_static && r.layers.integer(OptionId::node_rank) != 0) {
    r.warn("ignoring --node-rank: it is for --rdzv-backend=static");
  }
  if (auto done = is_static ? resolve_static(r) : resolve_c10d(r); !done) {
    return done;
  }
  return resolve_local_addr(r);
}

}  // namespace muster
