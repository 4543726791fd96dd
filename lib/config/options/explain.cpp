// SPDX-License-Identifier: Apache-2.0
#include "config/options/explain.hpp"

#include "base/plural.hpp"
#include "base/text.hpp"
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

// The effective values of --rdzv-conf.
std::string describe_rdzv(const RendezvousConfig& rdzv) {
  std::vector<std::string> parts{
      "join_timeout=" + describe(rdzv.join_timeout),
      "last_call_timeout=" + describe(rdzv.last_call_timeout),
      "lease=" + describe(rdzv.lease),
      "cool_down=" + describe(rdzv.cool_down),
      "join_delay=" + (rdzv.join_delay ? describe(*rdzv.join_delay) : "never"),
      "allow_split_brain=" + yes_no(rdzv.allow_split_brain),
      "any_program=" + yes_no(rdzv.any_program)};
  if (rdzv.is_host) {
    parts.push_back("is_host=" + yes_no(*rdzv.is_host));
  }
  return join(parts, ", ");
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

// True for settings that the user, the platform and the kind of job leave as they are.
bool has_default(const std::string& origin) {
  return origin.starts_with("default") || origin.starts_with("not needed");
}

// Adds the settings. Returns the number of settings that were left out.
std::size_t add_settings(const LaunchConfig& config, Explained what, std::vector<Line>& lines) {
  std::size_t omitted = 0;
  for (const Option& row : all_options()) {
    if (row.kind == ValueKind::action || !is_offered(row, config.personality)) {
      continue;
    }
    const std::string name(row.name);
    const std::string& origin = config.origins.at(name);
    if (what == Explained::changed && has_default(origin)) {
      ++omitted;
    } else {
      lines.push_back({name, config.shown.at(name), origin});
    }
  }
  return omitted;
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

std::string describe_config(const LaunchConfig& config, Explained what) {
  std::vector<Line> lines = first_lines(config);
  const std::size_t omitted = add_settings(config, what, lines);
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
  if (omitted > 0) {
    out += fmt::format("{} {} at the default; --explain=all prints {}\n",
                       counted(omitted, "other setting"),
                       is_are(omitted),
                       omitted == 1 ? "it" : "them");
  }
  return out;
}

}  // namespace muster
