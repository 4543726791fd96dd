// SPDX-License-Identifier: Apache-2.0
#include "config/options/explain.hpp"

#include "base/text.hpp"
#include "config/options/rdzv_conf.hpp"
#include "config/options/settings.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <vector>

namespace muster {
namespace {

std::string yes_no(bool value) {
  return value ? "yes" : "no";
}

std::string or_none(const std::string& text) {
  return text.empty() ? "none" : text;
}

std::string describe_spec(const StdSpec& spec) {
  if (spec.by_rank.empty()) {
    return std::to_string(spec.all);
  }
  std::vector<std::string> parts;
  parts.reserve(spec.by_rank.size());
  for (const auto& [rank, bits] : spec.by_rank) {
    parts.push_back(fmt::format("{}:{}", rank, bits));
  }
  return join(parts, ",");
}

std::string describe_conf(const LaunchConfig& config) {
  std::vector<std::string> parts;
  parts.reserve(config.rdzv_conf.size());
  for (const auto& [key, value] : config.rdzv_conf) {
    parts.push_back(fmt::format("{}={}", key, names_a_secret(key) ? "***" : value));
  }
  const auto idle = keys_without_effect(config.rdzv_conf, config.rdzv_backend);
  return or_none(join(parts, ",")) +
         (idle.empty() ? "" : fmt::format(" (no effect: {})", join(idle, ", ")));
}

std::string describe_delivery(SignalDelivery delivery) {
  switch (delivery) {
    case SignalDelivery::leader:
      return "leader";
    case SignalDelivery::slurm_step:
      return "group for signals from Slurm";
    case SignalDelivery::group:
      break;
  }
  return "group";
}

std::string describe_ranks(const std::optional<std::set<int>>& ranks) {
  if (!ranks) {
    return "all";
  }
  std::vector<std::string> parts;
  for (const int rank : *ranks) {
    parts.push_back(std::to_string(rank));
  }
  return join(parts, ",");
}

std::string describe_filters(const std::optional<std::vector<std::string>>& filters) {
  if (!filters) {
    return "none";
  }
  std::vector<std::string> parts;
  std::ranges::transform(*filters, std::back_inserter(parts), shell_quoted);
  return join(parts, ",");
}

std::string describe_level(LogLevel level) {
  return split(option(OptionId::log_level).choices, '|')[static_cast<std::size_t>(level)];
}

std::string describe_nproc(const LaunchConfig& config) {
  const std::string& reason = config.nproc_reason;
  return reason.empty() ? std::to_string(config.nproc)
                        : fmt::format("{} ({})", config.nproc, reason);
}

std::string describe_endpoints(const std::vector<Endpoint>& endpoints) {
  std::vector<std::string> parts;
  std::ranges::transform(endpoints, std::back_inserter(parts), &Endpoint::describe);
  return or_none(join(parts, ","));
}

std::string describe_range(const LaunchConfig& config) {
  return config.port_range
             ? fmt::format("{}-{}", config.port_range->first, config.port_range->second)
             : "any";
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

// The effective values of --rdzv-conf.
std::string describe_rdzv(const RendezvousConfig& rdzv) {
  std::vector<std::string> parts{
      "join_timeout=" + describe(rdzv.join_timeout),
      "last_call_timeout=" + describe(rdzv.last_call_timeout),
      "lease=" + describe(rdzv.lease),
      "join_delay=" + (rdzv.join_delay ? describe(*rdzv.join_delay) : "never"),
      "allow_split_brain=" + yes_no(rdzv.allow_split_brain),
      "any_program=" + yes_no(rdzv.any_program)};
  if (rdzv.is_host) {
    parts.push_back("is_host=" + yes_no(*rdzv.is_host));
  }
  return join(parts, ", ");
}

std::string describe_warm(const LaunchConfig& config) {
  if (!config.warm) {
    return "off";
  }
  return config.warm->empty() ? "auto" : join(*config.warm, ",");
}

// Exported variables, one on each line: "NAME" or "NAME=VALUE".
std::string describe_exports(const std::string& text) {
  std::vector<std::string> parts = split(text, '\n');
  for (std::string& part : parts) {
    const auto end = part.find('=');
    if (end != std::string::npos && names_a_secret(part.substr(0, end))) {
      part.replace(end + 1, std::string::npos, "***");
    }
  }
  return join(parts, ",");
}

// For a setting whose value is exactly what its source contains.
std::string text_of(OptionId id, const LaunchConfig& config) {
  const Option& row = option(id);
  const auto found = config.texts.find(std::string(row.name));
  const std::string text = found == config.texts.end() ? "" : found->second;
  if (row.kind == ValueKind::flag) {
    return yes_no(text == "1");
  }
  return or_none(id == OptionId::export_variable ? describe_exports(text) : text);
}

// The rendezvous settings. They are in a separate function to keep the switches readable.
std::string value_of_rdzv(OptionId id, const LaunchConfig& config) {
  switch (id) {
    case OptionId::standalone:
      return yes_no(config.standalone);
    case OptionId::nnodes:
      return fmt::format("{}:{}", config.nodes_min, config.nodes_max);
    case OptionId::node_rank:
      return describe_place(config);
    case OptionId::master_addr:
      return describe_master(config);
    case OptionId::master_port:
      return describe_port(config);
    case OptionId::local_addr:
      return or_none(config.local_addr);
    case OptionId::no_socket_ifname:
      return describe_ifname(config);
    case OptionId::port_range:
      return describe_range(config);
    case OptionId::store_via:
      return describe_store_via(config);
    case OptionId::rank_order:
      return or_none(join(config.rank_order, ","));
    case OptionId::rdzv_backend:
      return config.rdzv_backend;
    case OptionId::rdzv_endpoint:
      return describe_endpoints(config.rdzv_endpoints);
    case OptionId::rdzv_id:
      return config.rdzv_id;
    case OptionId::rdzv_conf:
      return describe_conf(config);
    case OptionId::token_file:
      return describe(config.token);
    case OptionId::token:
      if (config.token.munge == MungeUse::demanded) {
        return "munge";
      }
      return config.token.from == TokenFrom::nowhere ? "none" : "needed";
    case OptionId::state_dir:
      return or_none(config.state_dir);
    case OptionId::platform:
      return config.platform.name;
    default:
      return text_of(id, config);
  }
}

std::string describe_hang_timeout(const LaunchConfig& config) {
  if (!config.watch_hangs) {
    return "off";
  }
  return config.hang_timeout ? describe(*config.hang_timeout) : "auto";
}

// Never prints the key itself.
std::string describe_http_key(const LaunchConfig& config) {
  if (!config.http_has_key) {
    return "none";
  }
  return config.http_key_file.empty() ? "random" : config.http_key_file;
}

std::string value_of_output(OptionId id, const LaunchConfig& config) {
  switch (id) {
    case OptionId::log_dir:
      return config.logs_disabled ? "no files" : or_none(config.log_dir);
    case OptionId::redirects:
      return describe_spec(config.redirects);
    case OptionId::tee:
      return describe_spec(config.tee);
    case OptionId::label:
      return yes_no(config.label);
    case OptionId::local_ranks_filter:
      return describe_ranks(config.local_ranks_filter);
    case OptionId::log_line_prefix_template:
      return or_none(config.log_line_prefix_template);
    case OptionId::duplicate_stdout_filters:
      return describe_filters(config.duplicate_stdout_filters);
    case OptionId::duplicate_stderr_filters:
      return describe_filters(config.duplicate_stderr_filters);
    case OptionId::http:
      return config.http ? config.http->describe() : "off";
    case OptionId::http_key:
      return describe_http_key(config);
    case OptionId::log_level:
      return describe_level(config.log_level);
    default:
      return value_of_rdzv(id, config);
  }
}

// The policy and, for auto, its result. The masks are on separate lines.
std::string describe_numa(const LaunchConfig& config) {
  const NumaPlan& plan = config.numa_plan;
  const bool bound = !plan.ranks.empty();
  return plan.reason.empty()
             ? config.numa_binding
             : fmt::format("{} ({}{})", config.numa_binding, bound ? "" : "none: ", plan.reason);
}

std::string value_of(OptionId id, const LaunchConfig& config) {
  switch (id) {
    case OptionId::devices:
      return or_none(config.devices);
    case OptionId::numa_binding:
      return describe_numa(config);
    case OptionId::module:
      return yes_no(config.program.kind == ProgramKind::python_module);
    case OptionId::no_python:
      return yes_no(config.program.kind == ProgramKind::executable);
    case OptionId::use_env:
      return yes_no(config.local_rank_arg.empty());
    case OptionId::nproc_per_node:
      return describe_nproc(config);
    case OptionId::stdin_rank:
      return config.stdin_rank ? std::to_string(*config.stdin_rank) : "none";
    case OptionId::warm:
      return describe_warm(config);
    case OptionId::local_rank_arg:
      return or_none(config.local_rank_arg);
    case OptionId::quick_failures:
      return config.quick_failures == 0 ? "off" : std::to_string(config.quick_failures);
    case OptionId::shutdown_timeout:
      return describe(config.shutdown_timeout);
    case OptionId::signal_delivery:
      return describe_delivery(config.signal_delivery);
    case OptionId::hang_timeout:
      return describe_hang_timeout(config);
    case OptionId::config:
    case OptionId::accelerate_config:  // at most one of the two options has a file
      return config.origins.at(std::string(option(id).name)) == "default" ? "none"
                                                                          : config.config_file;
    default:
      return value_of_output(id, config);
  }
}

struct Line {
  std::string name;
  std::string value;
  std::string origin;
};

// The index of this node, or of this task if the platform starts one launcher per worker.
std::string describe_node(const PlatformPlan& plan) {
  std::string out = fmt::format("{} of {}, from 0", plan.node->value, plan.nodes->value);
  const auto index =
      static_cast<std::size_t>(plan.task ? plan.task->node.value_or(-1) : plan.node->value);
  if (index < plan.names.size()) {
    out += ": " + plan.names[index];
  }
  if (plan.task) {
    out += fmt::format(", local rank {}{}",
                       plan.task->local_rank,
                       plan.task->local_size ? fmt::format(" of {}", *plan.task->local_size) : "");
  }
  return out;
}

std::string describe_time(std::int64_t unix_seconds) {
  const std::time_t seconds = unix_seconds;
  std::tm parts{};
  std::array<char, 32> text{};
  ::gmtime_r(&seconds, &parts);
  return {text.data(), std::strftime(text.data(), text.size(), "%F %T UTC", &parts)};
}

void add_platform(const LaunchConfig& config, std::vector<Line>& lines) {
  const PlatformPlan& plan = config.platform;
  if (plan.name.empty() || plan.name == "none") {
    return;
  }
  lines.push_back({"found",
                   plan.what,
                   plan.also.empty() ? "nothing else" : "not used: " + join(plan.also, ", ")});
  if (plan.nodes && plan.node && !plan.is_first) {
    lines.push_back({"node", describe_node(plan), plan.node->origin});
  }
  if (plan.ends) {
    lines.push_back({"ends", describe_time(plan.ends->value), plan.ends->origin});
  }
  if (!plan.problem.empty()) {
    lines.push_back({"problem", plan.problem, plan.what});
  }
}

std::vector<Line> first_lines(const LaunchConfig& config) {
  std::vector<std::string> argv{shell_quoted(config.program.name)};
  std::ranges::transform(config.program.args, std::back_inserter(argv), shell_quoted);
  const Program& program = config.program;
  const bool python = program.kind != ProgramKind::executable;
  std::vector<Line> lines{
      {"program",
       join(argv, " "),
       program.problem.empty() ? "command line" : "command line; " + program.problem},
      {"python", python ? program.python : "none", python ? program.python_origin : "not needed"},
      {"usable cpus", std::to_string(config.usable_cpus), config.usable_cpus_reason}};
  add_platform(config, lines);
  if (many_nodes(config)) {
    lines.push_back({"rendezvous", describe_rdzv(config.rendezvous), "rdzv-conf and its defaults"});
  }
  return lines;
}

// The CPUs and memory of each worker.
void add_bindings(const LaunchConfig& config, std::vector<Line>& lines) {
  int local_rank = 0;
  for (const RankBinding& rank : config.numa_plan.ranks) {
    lines.push_back({fmt::format("local rank {}", local_rank++),
                     "cpus " + rank.cpus.describe(),
                     rank.memory.empty() ? "kernel default memory policy"
                                         : "memory of node " + rank.memory.describe()});
  }
}

}  // namespace

std::string describe_config(const LaunchConfig& config) {
  std::vector<Line> lines = first_lines(config);
  for (const Option& row : all_options()) {
    if (row.kind == ValueKind::action || !is_offered(row, config.personality)) {
      continue;
    }
    const auto origin = config.origins.find(std::string(row.name));
    lines.push_back({std::string(row.name),
                     value_of(row.id, config),
                     origin == config.origins.end() ? "" : origin->second});
  }
  add_bindings(config, lines);
  std::size_t names = 0;
  std::size_t values = 0;
  for (const Line& line : lines) {
    names = std::max(names, line.name.size());
    values = std::max(values, std::min<std::size_t>(line.value.size(), 40));
  }
  std::string out;
  for (const Line& line : lines) {
    out += fmt::format("{:{}}  {:{}}  {}\n", line.name, names, line.value, values, line.origin);
  }
  return out;
}

}  // namespace muster
