// SPDX-License-Identifier: Apache-2.0
#include "plan/explain.hpp"

#include "base/plural.hpp"
#include "base/text.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace muster {
namespace {

// The pid is known only once the worker runs, so the macro is shown instead.
std::string describe_prefix(std::string prefix) {
  for (auto at = prefix.find(kPidMark); at != std::string::npos; at = prefix.find(kPidMark, at)) {
    prefix.replace(at, kPidMark.size(), "${pid}");
  }
  return shell_quoted(prefix);
}

std::string describe_output(const OutputPlan& plan) {
  switch (plan.kind) {
    case OutputKind::inherit:
      return "inherited";
    case OutputKind::discard:
      return "discarded";
    case OutputKind::capture:
      return "forwarded line by line";
    case OutputKind::joined:
      return "same pipe as stdout";
    case OutputKind::keep:
      return "discarded; the last lines are kept for a failure report";
    case OutputKind::file:
      break;
  }
  std::string out = plan.path;
  if (plan.tee) {
    out += fmt::format(", forwarded with prefix {}", describe_prefix(plan.prefix));
  }
  if (!plan.filtered_path.empty()) {
    out += fmt::format("; lines that match {} are also written to {}",
                       plan.filters.size() == 1 ? "the filter" : "any filter",
                       plan.filtered_path);
  }
  return out;
}

std::string describe_argv(const std::vector<std::string>& argv) {
  std::vector<std::string> quoted;
  std::ranges::transform(argv, std::back_inserter(quoted), shell_quoted);
  return join(quoted, " ");
}

// Port numbers are chosen at startup, so their macros stay unexpanded in the example.
std::string describe_ports(const LaunchConfig& config) {
  return config.ports + config.leader_ports == 0
             ? ""
             : "# reserved ports are chosen at startup; their macros are not expanded here\n";
}

// Describes a value that is not known before startup. Empty if the value is known.
std::string unknown_value(std::string_view name, std::string_view value) {
  const bool is_ports = value.starts_with('0');
  if (name == "MASTER_ADDR" && value.empty()) {
    return "<address of the node with rank 0>";
  }
  if (name == "MASTER_PORT" && value == "0") {
    return "<any free port>";
  }
  if (name.ends_with("_SOCKET_IFNAME") && value == kUnknownInterface) {
    return "<interface through which other nodes reach this one>";
  }
  if (name == "MUSTER_AGENT" && value == kUnknownSocket) {
    return "<the agent's socket>";
  }
  if (name == "JAX_COORDINATOR_ADDRESS" && value.ends_with(":0")) {
    return "<address of the node with rank 0, and a port reserved there>";
  }
  if (name == "MUSTER_PORTS" && is_ports) {
    return fmt::format("<{} reserved on this node>", split(value, ',').size());
  }
  if (name == "MUSTER_LEADER_PORTS" && is_ports) {
    return fmt::format("<{} reserved on the node with rank 0>", split(value, ',').size());
  }
  return "";
}

// Names the values that the rendezvous determines. The user has set all other values.
std::string_view open_questions(const LaunchConfig& config) {
  if (config.rdzv_backend == "static") {
    return "the other nodes may have different numbers of workers";
  }
  return config.node_rank ? "the rendezvous determines the numbers of nodes and workers"
                          : "the rendezvous determines the ranks and the number of nodes";
}

}  // namespace

Result<Assignment> example_assignment(const LaunchConfig& config) {
  const std::vector<NodeShare> members(static_cast<std::size_t>(config.nodes_max),
                                       {config.nproc, config.role});
  auto out = assign(members,
                    static_cast<std::size_t>(config.node_rank.value_or(0)),
                    {},
                    Endpoint{config.master_addr, config.master_port});
  if (out) {
    out->agent_store = config.agent_store;
    if (many_nodes(config)) {
      out->interface = config.iface.empty() ? std::string(kUnknownInterface) : config.iface;
    }
    out->ports.resize(static_cast<std::size_t>(config.ports));
    out->leader_ports.resize(static_cast<std::size_t>(config.leader_ports));
  }
  return out;
}

std::string describe_example(const LaunchConfig& config, const Assignment& assignment) {
  const std::string& problem = config.program.problem;
  const std::string out =
      (problem.empty() ? "" : fmt::format("# cannot be started: {}\n", problem)) +
      describe_ports(config);
  if (!many_nodes(config)) {
    return out;
  }
  return out + fmt::format("# example for group rank {} of {} with {} each; {}\n",
                           assignment.group_rank,
                           counted(assignment.group_world_size, "node"),
                           counted(assignment.local_world_size, "worker"),
                           open_questions(config));
}

std::string describe_plan(const std::vector<ProcessSpec>& specs) {
  std::string out;
  for (const ProcessSpec& spec : specs) {
    const bool input = spec.standard_input == InputKind::inherit;
    out += fmt::format(
        "rank {} (local rank {})\n  runs    {}\n  stdin   {}\n  stdout  {}\n  stderr  {}\n",
        spec.rank,
        spec.local_rank,
        describe_argv(spec.argv),
        input ? "inherited" : "end of file",
        describe_output(spec.standard_output),
        describe_output(spec.standard_error));
    if (!spec.cpus.empty()) {
      out += fmt::format("  cpus    {}\n", spec.cpus.describe());
    }
    if (!spec.memory.empty()) {
      out += fmt::format("  memory  NUMA node {} preferred\n", spec.memory.describe());
    }
  }
  return out;
}

std::string describe_env(const std::vector<ProcessSpec>& specs, const Environ& inherited) {
  std::string out;
  for (const ProcessSpec& spec : specs) {
    out += fmt::format("# rank {}\n", spec.rank);
    for (const std::string& word : spec.environment) {
      const auto equals = word.find('=');
      const std::string name = word.substr(0, equals);
      const std::string value = word.substr(equals + 1);
      if (const std::string words = unknown_value(name, value); !words.empty()) {
        out += fmt::format("{}={}\n", name, words);
      } else if (inherited.get(name) != value) {
        out += fmt::format("{}={}\n", name, names_a_secret(name) ? "***" : shell_quoted(value));
      }
    }
  }
  return out;
}

}  // namespace muster
