// SPDX-License-Identifier: Apache-2.0
// The ports that are kept for the workers: --ports, --leader-ports, and MASTER_PORT where a worker
// is to serve the store.
#include "base/text.hpp"
#include "config/resolve/resolution.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string_view>

namespace muster {
namespace {

// Each costs a descriptor of the launcher. The wire format has the same limit.
constexpr int kPortsMax = 256;

// The number of ${port7}, where `text` goes on behind "${port"; none for other text.
std::optional<std::int64_t> index_of(std::string_view text) {
  const auto digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const bool closed = digits > 0 && digits < text.size() && text[digits] == '}';
  return closed ? parse_int(text.substr(0, digits)) : std::nullopt;
}

// The first macro of this name in the text whose number is not below `count`; empty if none.
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

// Where none is asked for, ${port0} may be a variable of a shell in the argument.
Result<void> check_macros(const Resolution& r, OptionId id, const std::string& name, int count) {
  if (count == 0) {
    return {};
  }
  for (const std::string& arg : r.config().program.args) {
    if (const std::string macro = macro_beyond(arg, name, count); !macro.empty()) {
      return r.layers.refuse(
          id,
          fmt::format(
              "the arguments name {}, but the last one is ${{{}{}}}", macro, name, count - 1));
    }
  }
  return {};
}

Result<void> resolve_count(const Resolution& r, OptionId id, const std::string& macro, int& count) {
  const auto number = r.layers.integer(id);
  if (number < 0 || number > kPortsMax) {
    return r.layers.refuse(id, fmt::format("must be from 0 to {}", kPortsMax));
  }
  count = static_cast<int>(number);
  return check_macros(r, id, macro, count);
}

// Many nodes: the rendezvous, this node's own listener, and the store if it gets rank 0.
constexpr int kPortsOfMany = 3;

// One node alone listens for its store; where its port was given, that one need not be in the
// range.
int ports_of_one(const LaunchConfig& config) {
  return config.master_port == 0 || !config.agent_store ? 1 : 0;
}

Result<void> check_range(const Resolution& r) {
  const LaunchConfig& config = r.config();
  if (!config.port_range || config.ports + config.leader_ports == 0) {
    return {};
  }
  const int in_range = config.port_range->second - config.port_range->first + 1;
  const int own = many_nodes(config) ? kPortsOfMany : ports_of_one(config);
  const int needed = config.ports + config.leader_ports + own;
  if (needed <= in_range) {
    return {};
  }
  return r.layers.refuse(OptionId::port_range,
                         fmt::format("it has {} ports, and {} are needed to listen on and to "
                                     "reserve",
                                     in_range,
                                     needed));
}

// As torchrun: exactly "1", and only where the store's port is not the rendezvous' own.
void resolve_agent_store(const Resolution& r) {
  const bool wanted = r.environ.get("TORCH_DISABLE_SHARE_RDZV_TCP_STORE") != "1";
  r.config().agent_store = wanted || r.config().rdzv_backend == "static";
  if (!r.config().agent_store) {
    r.set_origin(OptionId::master_port,
                 "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1: held for the worker of rank 0");
  }
}

}  // namespace

Result<void> resolve_ports(const Resolution& r) {
  LaunchConfig& config = r.config();
  resolve_agent_store(r);
  if (auto done = resolve_count(r, OptionId::ports, "port", config.ports); !done) {
    return done;
  }
  if (auto done = resolve_count(r, OptionId::leader_ports, "leader_port", config.leader_ports);
      !done) {
    return done;
  }
  return check_range(r);
}

}  // namespace muster
