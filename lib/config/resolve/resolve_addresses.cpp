// SPDX-License-Identifier: Apache-2.0
// How other nodes reach this node: its address, the ports on which it may listen, and the rank
// order.
#include "base/text.hpp"
#include "config/resolve/resolution.hpp"
#include "machine/own_addresses.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <set>

namespace muster {
namespace {

Result<void> resolve_local_addr(const Resolution& r) {
  const std::string& text = r.layers.text(OptionId::local_addr);
  if (text.empty()) {
    return {};
  }
  const auto host = parse_endpoint(text);
  if (!host || host->port) {
    return r.layers.refuse(OptionId::local_addr, "must be a name or an address without a port");
  }
  r.config().local_addr = host->host;
  return {};
}

Result<void> resolve_iface(const Resolution& r) {
  LaunchConfig& config = r.config();
  config.iface = r.layers.text(OptionId::iface);
  config.socket_ifname = !r.layers.is_on(OptionId::no_socket_ifname);
  if (config.iface.empty()) {
    return {};
  }
  if (!config.local_addr.empty()) {
    return r.layers.refuse(OptionId::iface,
                           "conflicts with --local-addr, which also sets this node's address; use "
                           "only one of them");
  }
  const auto own = r.machine.own_addresses();
  if (!own) {
    return r.layers.refuse(OptionId::iface, own.error().message);
  }
  const auto address = address_of_interface(config.iface, *own);
  if (!address) {
    return r.layers.refuse(OptionId::iface, address.error().message);
  }
  config.local_addr = *address;
  r.set_origin(OptionId::local_addr, "the address of --iface=" + config.iface);
  return {};
}

// With c10d the workers connect to the node with rank 0, which is this node in a single-node job.
void resolve_master(const Resolution& r) {
  LaunchConfig& config = r.config();
  if (config.rdzv_backend != "c10d") {
    return;
  }
  if (many_nodes(config)) {
    config.master_addr.clear();
    r.set_origin(OptionId::master_addr, "known after the rendezvous");
  } else if (!config.local_addr.empty()) {
    config.master_addr = config.local_addr;
  }
}

// A single node with c10d listens on any free port and ignores its endpoint.
Result<void> check_endpoints_in_range(const Resolution& r) {
  const LaunchConfig& config = r.config();
  if (!many_nodes(config) && config.rdzv_backend != "static") {
    return {};
  }
  const auto [first, last] = *config.port_range;
  for (const Endpoint& endpoint : config.rdzv_endpoints) {
    const std::uint16_t port = endpoint.port.value_or(0);
    if (port != 0 && (port < first || port > last)) {
      return r.layers.refuse(OptionId::port_range,
                             fmt::format("does not contain the port of the rendezvous endpoint {}",
                                         endpoint.describe()));
    }
  }
  return {};
}

Result<void> resolve_port_range(const Resolution& r) {
  const std::string& text = r.layers.text(OptionId::port_range);
  if (text.empty()) {
    return {};
  }
  r.config().port_range = parse_port_range(text);
  if (!r.config().port_range) {
    return r.layers.refuse(OptionId::port_range,
                           "must be A-B, two ports from 1 to 65535, the lower one first");
  }
  return check_endpoints_in_range(r);
}

// Adds the name on this line of the file. Returns a problem, or else an empty string.
std::string take_name(std::string_view line, std::set<std::string>& known, LaunchConfig& config) {
  const std::string name(trim(line.substr(0, line.find('#'))));
  if (name.empty()) {
    return "";
  }
  if (name.find_first_of(" \t,") != std::string::npos) {
    return fmt::format("'{}' is not a single name; write one name per line", name);
  }
  if (!known.insert(to_lower(name)).second) {
    return fmt::format("'{}' is listed twice", name);
  }
  config.rank_order.push_back(name);
  return "";
}

// The rank order overrides a --node-rank from a source with lower precedence, such as a platform.
Result<void> check_one_order(const Resolution& r) {
  LaunchConfig& config = r.config();
  const Setting& place = r.layers.of(OptionId::node_rank);
  if (config.rdzv_backend == "static") {
    return r.layers.refuse(OptionId::rank_order,
                           "cannot be used with --rdzv-backend=static, which uses --node-rank");
  }
  if (config.task) {
    return r.layers.refuse(OptionId::rank_order,
                           fmt::format("{} started one launcher per worker, so the list would "
                                       "contain each node several times; omit this option",
                                       config.platform.what));
  }
  if (config.node_rank && r.layers.of(OptionId::rank_order).source >= place.source) {
    return r.layers.refuse(OptionId::rank_order,
                           "conflicts with --node-rank; use only one of them");
  }
  config.node_rank.reset();
  config.nodes_are_numbered = false;
  return {};
}

}  // namespace

Result<void> resolve_addresses(const Resolution& r) {
  for (const auto step : {resolve_local_addr, resolve_iface, resolve_port_range}) {
    if (auto done = step(r); !done) {
      return done;
    }
  }
  resolve_master(r);
  return {};
}

Result<void> resolve_rank_order(const Resolution& r) {
  static constexpr std::string_view kFile = "file:";
  LaunchConfig& config = r.config();
  const std::string& text = r.layers.text(OptionId::rank_order);
  if (text.empty()) {
    return {};
  }
  if (!text.starts_with(kFile) || text.size() == kFile.size()) {
    return r.layers.refuse(OptionId::rank_order,
                           "must be file:PATH, a file with one name per line");
  }
  if (auto done = check_one_order(r); !done) {
    return done;
  }
  const auto file = r.machine.read_file(text.substr(kFile.size()));
  if (!file) {
    return r.layers.refuse(OptionId::rank_order, file.error().message);
  }
  std::set<std::string> known;
  for (const std::string& line : split(*file, '\n')) {
    if (const auto problem = take_name(line, known, config); !problem.empty()) {
      return r.layers.refuse(OptionId::rank_order, problem);
    }
  }
  return config.rank_order.empty() ? r.layers.refuse(OptionId::rank_order, "the file is empty")
                                   : Result<void>{};
}

}  // namespace muster
