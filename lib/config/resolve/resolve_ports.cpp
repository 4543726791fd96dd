// SPDX-License-Identifier: Apache-2.0
// Ports reserved for the workers: --ports, --leader-ports, and MASTER_PORT if a worker serves the
// store.
#include "base/plural.hpp"
#include "base/text.hpp"
#include "config/resolve/resolution.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string_view>

namespace muster {
namespace {

// Each port costs the launcher one file descriptor. The wire format has the same limit.
constexpr int kPortsMax = 256;

// The index in "${port7}", given the text after "${port". None if the text is not a port macro.
std::optional<std::int64_t> index_of(std::string_view text) {
  const auto digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const bool closed = digits > 0 && digits < text.size() && text[digits] == '}';
  return closed ? parse_int(text.substr(0, digits)) : std::nullopt;
}

// The first macro of this name whose index is `count` or more. Empty if there is none.
std::string macro_beyond(std::string_view text, const std::string& name, int count) {
  const std::string begin = "${" + name;
  for (auto at = text.find(begin); at != std::string_view::npos; at = text.find(begin, at + 1)) {
    const auto index = index_of(text.substr(at + begin.size()));
    if (index && *index >= count) {
      return fmt::format("{}{}}}", begin, *index);
    }
  }
  return "";
}

// JAX was detected and not asked for.
bool imports_jax_only(const Resolution& r) {
  return r.config().jax && r.layers.text(OptionId::env_for) == "auto";
}

// If no ports are reserved, ${port0} in an argument may be a shell variable.
Result<void> check_macros(const Resolution& r, OptionId id, const std::string& name, int count) {
  if (count == 0) {
    return {};
  }
  for (const std::string& arg : r.config().program.args) {
    if (const std::string macro = macro_beyond(arg, name, count); !macro.empty()) {
      return r.layers.refuse(
          id,
          fmt::format("the arguments use {}, but the last reserved port is ${{{}{}}}",
                      macro,
                      name,
                      count - 1));
    }
  }
  return {};
}

Result<void> resolve_count(const Resolution& r, OptionId id, const std::string& macro, int& count) {
  const bool has_jax = id == OptionId::leader_ports && r.config().jax && !imports_jax_only(r);
  const int most = kPortsMax - (has_jax ? 1 : 0);
  const auto number = r.layers.integer(id);
  if (number < 0 || number > most) {
    return r.layers.refuse(id, fmt::format("must be from 0 to {}", most));
  }
  count = static_cast<int>(number);
  return check_macros(r, id, macro, count);
}

// The number of ports that a node in a multi-node job listens on: the rendezvous, the node's
// listener, and the store if the node gets rank 0.
constexpr int kPortsOfMany = 3;

// A single node listens only for its store. A store port that was set explicitly need not be in the
// range.
int ports_of_one(const LaunchConfig& config) {
  return config.master_port == 0 || !config.agent_store ? 1 : 0;
}

int ports_in_range(const LaunchConfig& config) {
  return config.port_range->second - config.port_range->first + 1;
}

// Zero if no port is reserved, because muster then uses any port of the range.
int ports_needed(const LaunchConfig& config) {
  const int reserved = config.ports + reserved_leader_ports(config);
  const int own = many_nodes(config) ? kPortsOfMany : ports_of_one(config);
  return reserved == 0 ? 0 : reserved + own;
}

bool is_range_enough(const LaunchConfig& config) {
  return !config.port_range || ports_needed(config) <= ports_in_range(config);
}

// An import of jax must not be the reason that a job cannot start.
void drop_detected_jax(const Resolution& r) {
  LaunchConfig& config = r.config();
  if (!imports_jax_only(r) ||
      (is_range_enough(config) && reserved_leader_ports(config) <= kPortsMax)) {
    return;
  }
  config.jax = false;
  r.show(OptionId::env_for, "none");
  r.set_origin(OptionId::env_for, "no port is left for JAX's coordinator");
  r.warn(
      "the program imports jax, but no port is left for its coordinator, so JAX's variables are "
      "not set; use a larger --port-range or fewer --leader-ports");
}

Result<void> check_range(const Resolution& r) {
  const LaunchConfig& config = r.config();
  if (is_range_enough(config)) {
    return {};
  }
  const int needed = ports_needed(config);
  return r.layers.refuse(OptionId::port_range,
                         fmt::format("has {}, but {} {} needed for listening sockets and "
                                     "reserved ports",
                                     counted(ports_in_range(config), "port"),
                                     needed,
                                     is_are(needed)));
}

// As in torchrun, only the value "1" counts, and only if the store does not share the rendezvous
// port.
void resolve_agent_store(const Resolution& r) {
  const bool wanted = r.environ.get("TORCH_DISABLE_SHARE_RDZV_TCP_STORE") != "1";
  r.config().agent_store = wanted || r.config().rdzv_backend == "static";
  if (!r.config().agent_store) {
    r.set_origin(OptionId::master_port,
                 "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1: reserved for the worker of rank 0");
  }
}

}  // namespace

Result<void> resolve_ports(const Resolution& r) {
  LaunchConfig& config = r.config();
  resolve_agent_store(r);
  if (r.config().restart_by_rank && !r.config().agent_store) {
    return r.layers.refuse(OptionId::restart,
                           "needs the store that muster serves; unset "
                           "TORCH_DISABLE_SHARE_RDZV_TCP_STORE");
  }
  if (auto done = resolve_count(r, OptionId::ports, "port", config.ports); !done) {
    return done;
  }
  if (auto done = resolve_count(r, OptionId::leader_ports, "leader_port", config.leader_ports);
      !done) {
    return done;
  }
  drop_detected_jax(r);
  return check_range(r);
}

}  // namespace muster
